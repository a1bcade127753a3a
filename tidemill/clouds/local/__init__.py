"""This machine as a cloud of its own: its user, its clock and the lines that its workers have printed."""

from tidemill.clouds import Cloud

CLOUD = Cloud(name="local", title="this machine", package=__name__, service="local", scheme="file", login=False)
