"""The base of all models of a stack's config."""

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from .errors import from_pydantic

if TYPE_CHECKING:
    _Meta = type
else:

    class _Meta(type(BaseModel)):
        """Tells a mistake in a program's own call, `Rung(max_cpus="many")`, as one in a stack file is told."""

        def __call__(cls, *values: Any, **keys: Any) -> Any:
            try:
                return super().__call__(*values, **keys)
            except ValidationError as error:
                raise from_pydantic(error, cls, root=f"{cls.__name__}.") from None


class Model(BaseModel, metaclass=_Meta):
    """Plain data that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
