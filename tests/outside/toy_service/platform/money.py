"""Bills for a shelf: like those of AWS Batch."""

from components.services.batch.money import disk_gib, idle, staying

__all__ = ["disk_gib", "idle", "staying"]
