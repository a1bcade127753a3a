"""Errors of AWS's client: AWS cannot be asked, refuses, or breaks off in the middle of an answer."""

from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

REFUSALS = (BotoCoreError, ClientError, ResponseParserError)
