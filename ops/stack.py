"""`python -m ops stack`: a new team's stack file: the required keys, and every other key as a comment."""

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
import yaml
from pydantic import BaseModel

from components.config import ConfigError, StackConfig, parse
from components.rooms import CLOUDS, DEFAULT, cloud_room
from ops import project
from ops.check import problems
from ops.clouds import facts
from ops.required_tags import to_fill_in

_QUEUE, _IMAGE = "cpu", "registry://app:1.0.0"
_PRODUCTION = "prod"
_WIDTH = 120
_HEAD = """\
# yaml-language-server: $schema=schema.json
# A commented key shows its default or an example. Remove the # to set it; docs/stack-keys.md lists every key with its
# range and cost.
"""


@click.command()
@click.option("--team", required=True, help="The team: the trust boundary, and a tag on every resource.")
@click.option("--env", "environment", required=True, help="Which of the team's pipelines: dev, prod.")
@click.option("--cloud", type=click.Choice(CLOUDS), default=DEFAULT, show_default=True)
@click.option("--region", help="The cloud region.  [default: us-west-2, on GCP us-central1]")
@click.option("--project", "project_id", help="GCP: the project.  [default: TEAM-ENV]")
def stack(team: str, environment: str, cloud: str, region: str | None, project_id: str | None) -> None:
    """Write the stack file of a team's new pipeline and print the next commands.

    Exits 2 and writes nothing if a name is wrong or the file exists.
    """
    name = f"{team}-{environment}" if cloud == DEFAULT else f"{team}-{cloud}-{environment}"
    path = project.STACKS / f"Pulumi.{name}.yaml"
    places = cloud_room(cloud, "keys").PLACES
    if project_id and f"{cloud}:project" not in places:
        raise click.UsageError(f"--project {project_id}: only stacks on GCP have a project; leave it out on {cloud}.")
    given = {"region": region or facts(cloud).REGION, "project": project_id or f"{team}-{environment}"}
    place = {key: given[key.partition(":")[2]] for key in places}
    try:
        tags = to_fill_in(cloud, environment, path)
        text = stack_text(team, environment, cloud, place, tags)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    except FileExistsError:
        raise click.UsageError(
            f"stacks/{path.name} exists. Edit it; `python -m ops queue add --stack {name} ...` adds a queue."
        ) from None
    others = [other for other in sorted(project.STACKS.glob("Pulumi.*.yaml")) if other != path]
    wrong = problems([path], others)
    if wrong:
        path.unlink()
        raise click.UsageError(wrong[0])
    own = [f"the image of the queue {_QUEUE}", *(["the budget"] if environment == _PRODUCTION else [])]
    own += ["the tags"] if tags else []
    text = " and ".join([", ".join(own[:-1]), own[-1]] if own[1:] else own)
    click.echo(f"Wrote stacks/{path.name}. Fill in {text}, then:\n\n{_next(name, environment)}")


def _next(name: str, environment: str) -> str:
    options = [option.removeprefix(f"{project.ROOT}/") for option in project.policy_options(environment)]
    return (
        f"  make preview STACK={name}          # on an empty cloud of this machine, under the policy pack\n"
        f'  pulumi stack init {name} --secrets-provider "$secrets"  # once; docs/teams.md\n'
        f"  pulumi preview --diff {' '.join(options)}\n"
        f"  pulumi up {' '.join(options)}"
    )


def stack_text(
    team: str, environment: str, cloud: str, place: Mapping[str, str], tags: Mapping[str, str] | None = None
) -> str:
    """A stack file's content.

    Args:
        place: the keys of the cloud's provider, `aws:region`.
        tags: those that the environment's policies require.

    Raises:
        ConfigError: team or environment is not a valid name, or too long for the cloud.
    """
    values: dict[str, Any] = {"team": team, "environment": environment}
    values |= {"cloud": cloud} if cloud != DEFAULT else {}
    queues = {"queues": {_QUEUE: {"images": {"default": _IMAGE}}}}
    if environment == _PRODUCTION:
        # The policy pack also requires of production: no public addresses, and a budget.
        values["network"] = {"create": {"egress": "nat"}}
        budgets = StackConfig.model_fields["budget"].examples or []
        values["budget"] = next((each for each in budgets if _accepts({**values, **queues, "budget": each})), None)
    values |= {"tags": dict(tags)} if tags else {}
    least = {**values, **queues}
    config = parse(least)
    lines = ["config:"]
    lines += [f"  {key}: {value}" for key, value in place.items()]
    lines += [f"  tidemill:{key}: {_flow(value)}" for key, value in values.items()]
    lines += ["  tidemill:queues:", f"    {_QUEUE}:", f"      images: {{default: {_IMAGE}}}"]
    queue = config.queues[_QUEUE]
    lines += _comments(queue, {"images"}, "      ", lambda key, value: _accepts(_with_queue(least, key, value)))
    lines += _comments(
        config, set(least) | {"cloud"}, "  ", lambda key, value: _accepts({**least, key: value}), "tidemill:"
    )
    return _HEAD + "\n".join(lines) + "\n"


def _comments(
    model: BaseModel, given: set[str], indent: str, accepts: Callable[[str, Any], bool], prefix: str = ""
) -> Iterator[str]:
    """Each key of the stack's cloud as a comment: its first sentence, and its default or an example."""
    for key, field in type(model).model_fields.items():
        if key in given:
            continue
        value = next(_values(model, key, lambda value, key=key: accepts(key, value)), None)
        if value is not None:
            described = re.sub(r"^(AWS|GCP)( only\.|:) ", "", field.description or "")
            sentence = re.split(r"(?<=\.)\s", described)[0].rstrip(".")
            yield from textwrap.wrap(
                f"{sentence[:1].upper()}{sentence[1:]}.",
                _WIDTH,
                initial_indent=f"{indent}# ",
                subsequent_indent=f"{indent}# ",
            )
            yield f"{indent}# {prefix}{key}: {_flow(value)}"


def _values(model: BaseModel, key: str, accepts: Callable[[Any], bool]) -> Iterator[Any]:
    """Examples of a key that the stack's cloud accepts, then its default without keys of the other cloud."""
    yield from (example for example in type(model).model_fields[key].examples or [] if accepts(example))
    plain = model.model_dump(mode="json", exclude_none=True).get(key)
    if isinstance(getattr(model, key), BaseModel) and isinstance(plain, dict):
        kept = {part: value for part, value in plain.items() if value not in ([], {}) and accepts({part: value})}
        plain = {part: _one_size(value) for part, value in kept.items()}
    if plain not in (None, {}, []) and accepts(plain):
        yield plain


def _one_size(value: Any) -> Any:
    """``{min: 16, max: 16}`` is written ``16``, as GCP has it."""
    if isinstance(value, dict) and set(value) == {"min", "max"} and value["min"] == value["max"]:
        return value["min"]
    return value


def _with_queue(least: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    return {**least, "queues": {_QUEUE: {"images": {"default": _IMAGE}, key: value}}}


def _accepts(values: Mapping[str, Any]) -> bool:
    try:
        parse(values)
    except ConfigError:
        return False
    return True


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000)
    return text.removesuffix("\n").removesuffix("\n...")
