"""This machine: the workers of a `tidemill run`."""

from tidemill.services import Service

SERVICE = Service(
    name="local",
    title="this machine",
    package=__name__,
    clouds=frozenset({"local"}),
    # Its owner runs other programs too.
    kept_back=(10, 0),
    overflow=False,
    one_machine=True,
)
