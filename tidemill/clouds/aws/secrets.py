"""Personal secrets in AWS Secrets Manager: one secret of the stack, which holds all of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from tidemill.clouds.aws.session import translated
from tidemill.errors import CloudError
from tidemill.secrets.rules import read_document, write_document
from tidemill.secrets.secret_store import SecretStore


class AwsSecrets(SecretStore):
    """The secret with this ARN. `client` is one of Secrets Manager."""

    def __init__(self, client: Any, arn: str) -> None:
        self._client, self._arn = client, arn

    @property
    def place(self) -> str:
        return self._arn

    def read(self) -> dict[str, str]:
        # A secret has no value until the first is set.
        with translated("secretsmanager:GetSecretValue", absent=("ResourceNotFoundException",)):
            found = self._client.get_secret_value(SecretId=self._arn)["SecretString"]
            return _read(found, self._arn)
        return {}

    def change(self, values: Mapping[str, str], removed: Collection[str] = ()) -> None:
        kept = {name: value for name, value in self.read().items() if name not in removed}
        document = write_document({**kept, **values})
        with translated("secretsmanager:PutSecretValue"):
            self._client.put_secret_value(SecretId=self._arn, SecretString=document)


def _read(document: str, arn: str) -> dict[str, str]:
    try:
        return read_document(document)
    except ValueError as error:
        raise CloudError(f"{arn} is damaged: {error}.", "Ask the stack's owner.") from None
