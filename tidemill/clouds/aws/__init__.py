"""AWS: login, clock, topics, logs and their console."""

from tidemill.clouds import Cloud

CLOUD = Cloud(name="aws", title="AWS", package=__name__, service="batch", scheme="s3", show="aws s3 cp {uri} -")
