"""AWS: login, clock, topics, logs and their console."""

from tidemill.clouds import Cloud

CLOUD = Cloud(
    name="aws",
    title="AWS",
    package=__name__,
    service="batch",
    scheme="s3",
    show="aws s3 cp {uri} -",
    sender_errors="aws logs tail {group} --region {region} --since 1d --filter-pattern '\"error:\"'",
    region_form=r"[a-z]{2}(-[a-z]+)+-\d",
    # Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-placement-score.html
    scored_types=3,
)
