"""Toys: a service of a package outside the repository. Chunks lie on a shelf, a folder of the job store."""

from tidemill.services import Service

SERVICE = Service(name="toy", title="Toys", package=__name__, clouds=frozenset({"aws"}), array_chunks=5000)
