"""Artifact Registry: the images of a repository, as far as machines can pull them."""

from __future__ import annotations

from localcloud.gcp.compute.api import Compute
from localcloud.gcp.site import Plugin
from localcloud.gcp.wire import Request, Response, RestError
from localcloud.machines.images import PullError


class Images(Plugin):
    apis = ("artifactregistry",)

    def handle(self, request: Request) -> Response | None:
        """Answer an image by its digest. The image that represents this machine's root exists under every name.

        Source: https://cloud.google.com/artifact-registry/docs/reference/rest/v1/projects.locations.repositories.dockerImages
        """
        if not request.call.id.endswith(".dockerImages.get"):
            return None
        repository, _, image = request.call.name.partition("/dockerImages/")
        if not self._site.resources.get(self._site.full_name("artifactregistry", repository)):
            raise RestError(404, "Requested entity was not found.")
        _, project, _, location, _, name = repository.split("/")
        uri = f"{location}-docker.pkg.dev/{project}/{name}/{image}"
        try:
            manifests = self._site.plugin(Compute).registry.platforms(uri)
        except PullError as error:
            raise RestError(404, str(error)) from None
        return Response.of({"name": request.call.name, "uri": uri, "imageManifests": manifests})
