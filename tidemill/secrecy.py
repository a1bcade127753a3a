"""What looks like a secret: in a job's environment, in its code, and in folders that people send.

Everyone who may read the job store can read what lies there. This module is a leaf of the standard library alone.
"""

from __future__ import annotations

import os
import re

NAME = re.compile(r"(SECRET|PASSWORD|PASSWD|PRIVATE_KEY|ACCESS_KEY|API_?KEY|(^|_)TOKEN$)", re.IGNORECASE)
"""Of a variable."""
VALUE = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY|\bA(KIA|SIA)[0-9A-Z]{16}\b|\bgh[pousr]_\w{30}|\bhf_\w{30})")
"""Of a variable."""
FOLDERS = frozenset({".aws", ".azure", ".config/gcloud", ".gnupg", ".kube", ".ssh"})
"""Where programs keep a person's logins."""
INSTEAD = "Ask the stack's owner to declare what machines need under tidemill:queues.<queue>.secrets."
_FILES = re.compile(
    r"""(\.env(\.(?!(example|sample|template|dist|defaults?)$)[\w.-]+)?
    |[._]netrc|\.pgpass|\.my\.cnf|\.pypirc|\.git-credentials|\.dockercfg|\.s3cfg|\.boto|\.vault-token
    |id_(rsa|dsa|ecdsa|ed25519)(_sk)?|.*\.(p12|pfx|ppk|kdbx)|(.*[.-])?kubeconfig(\.ya?ml)?
    |application_default_credentials\.json)""",
    re.VERBOSE | re.IGNORECASE,
)
_TELLING = re.compile(r".*\.(pem|key)|.*(account|credential|secret).*|\.npmrc|config(\.json)?", re.IGNORECASE)
"""Names of files of a folder of data that are read."""
_INSIDE = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(\s|\\[nr])*[A-Za-z0-9+/]{8}"
    rb"|\bA(?:KIA|SIA)(?![0-9A-Z]*EXAMPLE)[0-9A-Z]{16}\b|\bgh[pousr]_\w{30}|\bhf_[A-Za-z0-9]{30}"
    rb"|aws_secret_access_key\s*=\s*[^\s<$]|client-key-data:\s*\w|_authToken\s*=\s*[^\s$<]"
    rb'|"auths"\s*:\s*\{[^}]*"auth"\s*:\s*"\w'
)
_MOST_BYTES = 64 * 1024
"""Files with logins are small."""


def is_login_folder(path: str) -> bool:
    """Whether programs keep logins in a folder of this name."""
    above, name = os.path.split(path)
    return name in FOLDERS or f"{os.path.basename(above)}/{name}" in FOLDERS


def is_secret(path: str, size: int, *, code: bool) -> bool:
    """Whether a file looks like a login or a private key. Of code every small file is read, of data those with a
    telling name."""
    name = os.path.basename(path)
    if _FILES.fullmatch(name):
        return True
    if size > _MOST_BYTES or not (code or _TELLING.fullmatch(name)):
        return False
    try:
        with open(path, "rb") as file:
            return _INSIDE.search(file.read(_MOST_BYTES)) is not None
    except OSError:
        return False  # Whoever sends it says why it cannot be read.
