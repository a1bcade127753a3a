"""Recognizes likely secrets: in a job's environment, in its code, and in folders that people send.

Everyone who may read the job store can read all of its objects. This module is a leaf of the standard library alone.
"""

from __future__ import annotations

import os
import re

NAME = re.compile(r"(SECRET|PASSWORD|PASSWD|PRIVATE_KEY|ACCESS_KEY|API_?KEY|(^|_)TOKEN$)", re.IGNORECASE)
"""Of a variable."""
_TOKEN = (
    r"\bgh[pousr]_\w{30}|\bgithub_pat_\w{30}|\bglpat-[\w-]{20}|\bhf_[A-Za-z0-9]{30}|\bpul-[0-9a-f]{40}\b"
    r"|\bA(?:KIA|SIA)(?![0-9A-Z]*EXAMPLE)[0-9A-Z]{16}\b"
)
VALUE = re.compile(rf"-----BEGIN [A-Z ]*PRIVATE KEY|{_TOKEN}")
"""Of a variable."""
FOLDERS = frozenset({".aws", ".azure", ".config/gcloud", ".config/gh", ".gnupg", ".kube", ".pulumi", ".ssh"})
"""Where programs keep a person's logins."""
INSTEAD = (
    "Keep it with `tidemill secret set NAME` and name it in `secrets`, or ask the stack's owner to declare it under "
    "tidemill:queues.<queue>.secrets."
)
_OF_NAMES = re.VERBOSE | re.IGNORECASE
# `re` compiles the next two when a file is looked at: every start of a command would wait for it.
_FILES = r"""(\.env(\.(?!([\w.-]+\.)?(example|sample|template|dist|defaults?)$)[\w.-]+)?
    |[._]netrc|\.pgpass|\.my\.cnf|\.pypirc|\.git-credentials|\.dockercfg|\.s3cfg|\.boto|\.vault-token|\.databrickscfg
    |id_(rsa|dsa|ecdsa|ed25519)(_sk)?|.*\.(p12|pfx|ppk|kdbx|jks|keystore)|(.*[.-])?kubeconfig(\.ya?ml)?
    |.*\.tfstate(\.backup)?|credentials\.tfrc\.json|application_default_credentials\.json)"""
_TELLING = r"""(.*\.(pem|p8|key)|.*(account|credential|secret|firebase-adminsdk).*|.*keys?(\.(csv|json|txt))?
    |.*_(rsa|ed25519)|.*-[0-9a-f]{12}\.json|\.npmrc|\.yarnrc\.yml|rclone\.conf|hosts\.yml|config(\.json)?)"""
"""Names of files of a folder of data that are read. Google names the key of an account `PROJECT-<12 hex digits>.json`.
"""
_INSIDE = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr])*(?:[A-Za-z0-9+/]{8}|Proc-Type:|Version:|Comment:)"
    rb"|(?i:aws_secret_access_key|secretaccesskey)[\"']?[ \t]*[=:][ \t]*[\"']?(?![\w/+]*EXAMPLE)[A-Za-z0-9/+]{40}\b"
    rb"|client-key-data:\s*\w|\btoken:\s*eyJ\w|(?:_authToken|npmAuthToken)[ \t]*[=:][ \t]*[^\s$<]"
    rb'|"auths"\s*:\s*\{[^}]*"auth"\s*:\s*"\w|' + _TOKEN.encode()
)
_SETTINGS = re.compile(r".*\.(env|tfvars)|\.envrc", re.IGNORECASE)
_SETTING = re.compile(
    rb"^[ \t]*(?:export[ \t]+)?\w*(?:SECRET|PASSWORD|PASSWD|PRIVATE_KEY|ACCESS_KEY|API_?KEY|TOKEN)"
    rb"[ \t]*=[ \t]*[\"']?[^\s\"'$<{]",
    re.IGNORECASE | re.MULTILINE,
)
"""A line of such a file; others have too many that are no secrets."""
_MOST_BYTES = 64 * 1024
"""Files with logins are small."""


def is_login_folder(path: str) -> bool:
    """True if programs keep logins in a folder of this name."""
    above, name = os.path.split(path)
    return name in FOLDERS or f"{os.path.basename(above)}/{name}" in FOLDERS


def is_secret(path: str, size: int, *, code: bool) -> bool:
    """True if a file looks like a login or a private key. Every small file of code is read, but only data files with a
    telling name."""
    name = os.path.basename(path)
    if re.fullmatch(_FILES, name, _OF_NAMES):
        return True
    settings = _SETTINGS.fullmatch(name)
    if size > _MOST_BYTES or not (code or settings or re.fullmatch(_TELLING, name, _OF_NAMES)):
        return False
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES)
    except OSError:
        return False  # Whoever sends it says why it cannot be read.
    return bool(_INSIDE.search(content) or (settings and _SETTING.search(content)))
