"""The settings of the clouds' providers, which a stack file may have as `aws:NAME` and `gcp:NAME`.

The providers ignore a name that they do not know, and so does the engine; a test compares the lists with the SDKs'.
"""

from collections.abc import Iterable

from components.config import ConfigError
from components.config.errors import nearest
from components.rooms import CLOUDS
from ops.clouds import facts

SETTINGS = {cloud: facts(cloud).SETTINGS for cloud in CLOUDS}
_NAMESPACES = ("tidemill", *SETTINGS, "pulumi")


def misspelled(keys: Iterable[str]) -> ConfigError | None:
    """The error of the first key that no provider reads; a namespace of its own may be another provider's."""
    for key in keys:
        namespace, _, name = key.partition(":")
        settings = SETTINGS.get(namespace)
        if settings is None:
            guess = None if namespace in _NAMESPACES else nearest(namespace, _NAMESPACES)
            if guess:
                fix = f"Did you mean {guess}:{name}?"
                return ConfigError(key, "", "", fix, sentence=f": no provider is called {namespace}")
        elif name.split(".")[0] not in settings and not name.endswith(facts(namespace).SETTINGS_END):
            guess = nearest(name, settings)
            fix = f"Did you mean {namespace}:{guess}?" if guess else "Remove the key"
            return ConfigError(key, "", "", fix, sentence=f" is not a setting of the {namespace} provider")
    return None
