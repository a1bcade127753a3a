"""ECR's API for images that were pushed to the registry on loopback; moto answers the rest of ECR."""

from __future__ import annotations

import json
import secrets
from typing import Any

from localcloud.aws.wsgi import Environ, StartResponse, WsgiApp, respond
from localcloud.machines.images import Registry

LAYERS = "/_layers/"
"""Path of requested layers. Like ECR's addresses, which lead to S3, these need no signature."""
JSON = "application/x-amz-json-1.1"


class Ecr:
    """The ECR service.

    Args:
        registry: The images.
        moto: The rest of the service.
        url: The gateway's URL.
    """

    def __init__(self, registry: Registry, moto: WsgiApp, url: str) -> None:
        self._registry, self._moto, self._url = registry, moto, url
        self._layers: dict[str, tuple[str, str]] = {}

    def __call__(self, environ: Environ, start_response: StartResponse) -> Any:
        operation = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        answers = {"BatchGetImage": self._images, "GetDownloadUrlForLayer": self._layer}
        asked = json.loads(environ["localcloud.body"] or b"{}")
        if operation not in answers or not self._registry.knows(asked["repositoryName"]):
            return self._moto(environ, start_response)
        return respond(start_response, 200, json.dumps(answers[operation](asked)).encode(), JSON)

    def _images(self, asked: dict[str, Any]) -> dict[str, Any]:
        """https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_BatchGetImage.html"""
        images, failures = [], []
        for identity in asked["imageIds"]:
            manifest = self._registry.manifest(
                asked["repositoryName"], identity.get("imageDigest") or identity["imageTag"]
            )
            if manifest is None:
                failures.append(
                    {"imageId": identity, "failureCode": "ImageNotFound", "failureReason": "Requested image not found"}
                )
            else:
                images.append({"imageId": identity, "imageManifest": manifest.decode()})
        return {"images": images, "failures": failures}

    def _layer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_GetDownloadUrlForLayer.html"""
        token = secrets.token_hex(16)
        self._layers[token] = (asked["repositoryName"], asked["layerDigest"])
        return {"downloadUrl": f"{self._url}{LAYERS}{token}", "layerDigest": asked["layerDigest"]}

    def layers(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        """Return the content of a layer's address."""
        wanted = self._layers.get(environ["PATH_INFO"].removeprefix(LAYERS))
        content = self._registry.blob(*wanted) if wanted else None
        if content is None:
            return respond(start_response, 403, b"", "text/plain")
        return respond(start_response, 200, content, "application/octet-stream")
