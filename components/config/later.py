"""Keys whose values may come from another resource of the same program, as outputs.

A plain value is checked at once. An output is checked when it is known: in a preview of a resource that does not exist
yet it is not, and the check waits for the `up`. Whether a key is there is always known, so it may decide what is made.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypeGuard

import pulumi
from pulumi.output import Unknown
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

from .errors import ConfigError
from .types import ALLOWED_DATA, AWS_KEY, DATA, GCP_KEY, Matching, unique

MARK = "fromResource"
"""In a model's JSON schema: the value may be an output. Only the package for other languages has it."""
_FIX = "It comes from an output of another resource"


def is_plain(value: Any) -> TypeGuard[str]:
    """True for a text, false for an output, whose value may not be known yet."""
    return isinstance(value, str)


def plain(values: Iterable[Any]) -> list[str]:
    """The texts among values, without outputs."""
    return [value for value in values if is_plain(value)]


def ordered(values: Iterable[pulumi.Input[str]]) -> list[pulumi.Input[str]]:
    """Texts in order, and then outputs, whose order is theirs."""
    listed = list(values)
    return [*sorted(plain(listed)), *(value for value in listed if not is_plain(value))]


def length(value: Any, most: int) -> int:
    """Characters of a value; of an output, the most that it may have."""
    return len(value) if is_plain(value) else most


@dataclass(frozen=True)
class FromResource(Matching):
    """A text that matches a pattern, or an output of one.

    Args:
        key: the key in a stack's config, for the error of an output.
    """

    key: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        text = core_schema.no_info_after_validator_function(self._check, core_schema.str_schema(strict=True))
        return _or_output(text, self.later)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return super().__get_pydantic_json_schema__(schema, handler) | {MARK: True}

    def later(self, value: Any) -> Any:
        """The value of an output, if it is right.

        Raises:
            ConfigError: it is not.
        """
        if not is_plain(value) or len(value) > self.longest or not self.pattern.fullmatch(value):
            raise ConfigError(f"tidemill:{self.key}", self.shown(value), self.allowed, _FIX)
        return value

    def shown(self, value: Any) -> str:
        """The value as the error shows it."""
        return repr(value)


@dataclass(frozen=True)
class SecretFromResource(FromResource):
    """A reference to a secret, whose plain form a cloud's checks look at. What it is instead is never shown."""

    def shown(self, value: Any) -> str:
        """Its length alone."""
        return f"a text of {len(str(value))} characters (not shown)"

    def _check(self, value: str) -> str:
        return value

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), MARK: True}


@dataclass(frozen=True)
class ListFromResource:
    """A list of texts or outputs, each value once, or an output of a whole list."""

    items: FromResource
    most: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        item = self.items.__get_pydantic_core_schema__(str, handler)
        schema = core_schema.list_schema(
            core_schema.chain_schema([item], metadata={"pydantic_js_functions": [self._item]}),
            min_length=1,
            max_length=self.most,
            strict=True,
        )
        once = core_schema.no_info_after_validator_function(unique._check, schema)
        return _or_output(once, self.later)

    def later(self, values: Any) -> list[Any]:
        """The values of an output, if they are right.

        Raises:
            ConfigError: they are not.
        """
        if not isinstance(values, Sequence) or is_plain(values):
            raise ConfigError(f"tidemill:{self.items.key}", repr(values), "a list", f"{_FIX}: put it into a list")
        return [self.items.later(value) for value in values]

    def _item(self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return self.items.__get_pydantic_json_schema__(schema, handler)

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "uniqueItems": True, MARK: True}


def _or_output(schema: core_schema.CoreSchema, later: Any) -> core_schema.CoreSchema:
    """The schema of a plain value, extended by outputs, which are checked when they are known."""

    def either(value: Any, handler: core_schema.ValidatorFunctionWrapHandler) -> Any:
        if isinstance(value, pulumi.Output | Unknown):
            return pulumi.Output.from_input(value).apply(later)
        return handler(value)

    as_it_is = core_schema.plain_serializer_function_ser_schema(lambda value: value)
    return core_schema.no_info_wrap_validator_function(either, schema, serialization=as_it_is)


def from_resource(pattern: re.Pattern[str], allowed: str, key: str, longest: int = 2048) -> FromResource:
    """A text that matches a pattern from end to end, or an output of one."""
    return FromResource(pattern, allowed, longest, key)


if TYPE_CHECKING:
    Text = pulumi.Input[str]
    Listed = pulumi.Input[Sequence[pulumi.Input[str]]]
else:
    # Pydantic need not know of outputs: the annotations here make the validators.
    Text, Listed = str, list

_KEY = re.compile(rf"create|{AWS_KEY.pattern}|{GCP_KEY.pattern}")
_ALLOWED_KEY = "the ARN of a KMS key, or create; on GCP projects/p/locations/l/keyRings/r/cryptoKeys/k, or create"

StoreKey = Annotated[Text, from_resource(_KEY, _ALLOWED_KEY, "store.kms_key")]
LogsKey = Annotated[Text, from_resource(_KEY, _ALLOWED_KEY, "logs.kms_key")]
RegistryKey = Annotated[Text, from_resource(_KEY, _ALLOWED_KEY, "registry.kms_key")]
DisksKey = Annotated[Text, from_resource(_KEY, _ALLOWED_KEY, "disks.kms_key")]
TopicsKey = Annotated[Text, from_resource(_KEY, _ALLOWED_KEY, "topics.kms_key")]
FileSystemKey = Annotated[Text, from_resource(_KEY, _ALLOWED_KEY, "file_systems.kms_key")]
ReadUri = Annotated[Text, from_resource(DATA, ALLOWED_DATA, "data.read")]
WriteUri = Annotated[Text, from_resource(DATA, ALLOWED_DATA, "data.write")]
