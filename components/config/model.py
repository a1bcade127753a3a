"""The base of all models of a stack's config."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Plain data that refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, hide_input_in_errors=True)
