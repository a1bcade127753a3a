"""`tidemill queues`: the queues of the pipeline and their machines."""

from __future__ import annotations

import click

from tidemill.cli.options import common, load
from tidemill.cli.show import show_json, show_table


@click.command()
@common
def command(pipeline: str | None, as_json: bool) -> int:
    """List the queues of the pipeline: resources per item, machines, capacity, images and state."""
    queues = load(pipeline).queues()
    if as_json:
        show_json({"queues": [queue.to_json() for queue in queues]})
        return 0
    header = ("queue", "state", "item", "machines", "capacity", "images")
    show_table(header, [(q.name, q.state.detail, q.item, q.machines, q.capacity, ", ".join(q.images)) for q in queues])
    return 0
