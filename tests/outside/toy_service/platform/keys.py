"""Keys of a queue that is a shelf: its machines are like those of AWS Batch."""

from components.config.model import Model
from components.config.types import Name
from components.services.batch.keys import filled, notes, types

__all__ = ["ToyOptions", "filled", "notes", "types"]


class ToyOptions(Model):
    """The `options` of a queue."""

    shelf: Name
