"""Trust edges: every place where a process with more rights, or of somebody else, reads what one with fewer wrote.

To add one, add a line to `EDGES`. A test sees to it that each hostile test exists, and `python -m tests.access` then
rewrites docs/access.md.
"""

from __future__ import annotations

from typing import NamedTuple


class Edge(NamedTuple):
    """An edge. `test` is a file below `tests/` and the name of a test in it; empty where the team is the wall."""

    what: str
    writer: str
    reader: str
    checks: str
    test: str


_HOST = "components/test_aws_host.py::"
_OUT = "attack/test_out_of_aws.py::"
_HOSTILE = "worker/test_hostile_items.py::"

EDGES = [
    # Sockets and folders of machines.
    Edge("AWS: the line on `fetch.sock`", "any container", "`host.py`, with the machine's role",
        "an image by digest of the repository that the stack's object names; length, time, two connections",
        _HOST + "test_a_container_chooses_a_digest_and_nothing_else"),
    Edge("AWS: connections to `fetch.sock`", "any container", "`host.py`",
        "two at a time for each control group, ten seconds each",
        _HOST + "test_one_container_cannot_keep_the_others_out"),
    Edge("AWS: the manifest of a worker", "whoever answers for ECR", "`host.py`", "its SHA-256 is the digest",
        _HOST + "test_a_manifest_that_arrives_as_another_one_leaves_nothing"),
    Edge("AWS: the layer of a worker", "whoever pushes into the repository", "`host.py`, as a user without rights",
        "its SHA-256; plain files, folders and inner links below `tidemill/`, each once; sizes",
        _HOST + "test_a_layer_holds_files_folders_and_inner_links"),
    Edge("AWS: `/tidemill` in containers", "any container", "the launchers and workers of later containers",
        "the mount is read-only", _OUT + "test_no_way_leads_out"),
    Edge("AWS: instance metadata, other tasks' credentials", "the machine, the ECS agent", "any container",
        "the containers' slice reaches no metadata; a task's address is secret", _OUT + "test_no_way_leads_out"),
    Edge("GCP: metadata and APIs", "any container", "Google, with the machine's account",
        "the account's rights, which are the job's (above)", "attack/test_out_of_gcp.py::test_no_way_leads_out"),
    Edge("GCP: the worker's last lines and exit code", "the worker and its items", "`run.sh`, as root",
        "text of 4,000 bytes, quoted into JSON; a code is only compared",
        "components/test_gcp_host.py::test_a_worker_that_does_not_start_is_tried_five_times_with_pauses"),
    Edge("GCP: the name and value of a secret", "the stack, whoever writes the secret", "`run.sh`, as root",
        "an environment of its own; no name changes the script",
        "components/test_gcp_host.py::test_a_secrets_name_changes_nothing_of_the_script"),
    Edge("Mounts of the machine's folders", "the stack file", "any container, as root",
        "a folder below `/mnt` or `/data`, on GCP `/mnt/disks`; none inside another",
        "unit/config/test_bad_input.py::test_one_line_with_key_value_allowed_and_what_to_do"),
    Edge("The same, of stacks that are no Tidemill", "a program of the platform team", "Batch",
        "the policy pack has the same list", "policy/test_cases.py::test_a_case_of_a_rule"),
    Edge("`/scratch` and `/cache` of a machine", "items of a job", "items and workers of the team's other jobs",
        "nothing: the team is the wall (ADR 1). Code that a job ships lies in a folder that others may not write",
        "worker/test_code.py::test_a_folder_that_others_may_write_is_not_used"),
    Edge("An item's output folder", "the item", "the worker, with the job's rights",
        "plain files below the folder; links out, pipes and what grows fail the item",
        _HOSTILE + "test_a_program_that_attacks_its_output_folder_fails_alone"),
    Edge("A link in an output folder", "the item", "the worker", "it must stay inside",
        _HOSTILE + "test_a_program_that_attacks_its_output_folder_fails_alone"),
    Edge("The pipe of a function", "the item", "the worker", "JSON of a size; no pickle; what breaks it ends the item",
        _HOSTILE + "test_a_function_that_attacks_its_folder_or_its_pipe_fails_alone"),
    Edge("What an item prints", "the item", "the worker's metrics", "expressions have a time limit",
        "unit/client/results/test_metrics.py::test_a_catastrophic_expression_is_given_up_and_the_others_go_on"),
    # Objects of the store.
    Edge("AWS: `machines/<queue>/worker`", "the stack", "new machines",
        "an image by digest, in the partition that metadata names; only stacks may write it (above)",
        _HOST + "test_what_the_object_names_lies_in_a_registry_of_aws"),
    Edge("The cloud and the services that `pipeline.json` names", "the stack, whoever hands its URI to a person",
        "clients, which import their records",
        "names without dots, of this version or of an installed package; services of that cloud",
        "unit/services/test_registry.py::test_a_name_that_nobody_has_is_told"),
    Edge("The service that a stack file names", "whoever may open a pull request", "previews, which import its record",
        "as above", "unit/config/test_bad_input.py::test_one_line_with_key_value_allowed_and_what_to_do"),
    Edge("`jobs/<job>/job.json` and rounds", "submitters, and any job of the team", "workers",
        "their SHA-256, which the lease names", "unit/ledger/test_ledger.py::test_what_was_enqueued_is_checked"),
    Edge("`jobs/<job>/items`", "submitters, and any job of the team", "workers and clients",
        "its SHA-256; the number of items", "unit/ledger/test_manifest.py::test_damage_is_seen"),
    Edge("`jobs/<job>/code`: unpacking", "submitters", "workers", "Python's filter for data, sizes, numbers of files",
        "worker/test_code.py::test_a_hostile_tarball_unpacks_nothing_outside_and_no_more_than_allowed"),
    Edge("`jobs/<job>/code`: content", "any job of the team", "workers",
        "its SHA-256, which the round names; else the job is cancelled",
        "worker/test_code.py::test_a_tarball_that_was_changed_in_the_store_is_refused_and_the_job_says_so"),
    Edge("`jobs/<job>/webhook`", "submitters, and any job of the team", "the client of whoever looks, the last worker",
        "HTTPS to public addresses; a cloud's job reaches no port of the machine that looks",
        "worker/test_endings.py::test_a_look_at_a_cloud_job_posts_to_no_port_of_this_machine"),
    Edge("The address that a webhook's name resolves to", "whoever has the domain", "the client, the worker",
        "it is no private one", "worker/test_endings.py::test_a_person_posts_to_no_address_of_their_own_network"),
    Edge("Records of chunks", "workers, and any job of the team", "clients", "their digest; a damaged one is named",
        "unit/client/report/test_page.py::test_a_damaged_record_is_named"),
    Edge("Objects of `job://` another job", "jobs of the team", "workers", "size and SHA-256 of the listing",
        "unit/store/test_tree.py::test_an_object_that_changed_is_damaged_and_leaves_no_file"),
    Edge("Names of `state/` and of folders as inputs", "items of the team's jobs", "workers, `fetch`",
        "plain relative names", "unit/store/test_tree.py::test_a_path_never_leaves_the_folder"),
    Edge("Content of `state/`", "workers, and any job of the team", "the next worker",
        "size and SHA-256; another snapshot is taken",
        "unit/state/test_snapshots.py::test_a_damaged_object_costs_one_snapshot"),
    Edge("Names of outputs below `out/`", "items of the team's jobs", "`fetch` on the submitter's laptop",
        "names that stay in the folder; none is a link that was there",
        "unit/client/results/test_fetch.py::test_hostile_names_of_outputs_stay_in_the_folder"),
    Edge("The same, stored past the worker", "a program with the job's rights", "`fetch`", "as above",
        _OUT + "test_a_fetch_writes_into_its_folder_alone"),
    Edge("Names that no listing takes, such as `out/<job>/1/a/../x`", "a program with the job's rights", "`fetch`",
        "a problem of that item; the others come",
        "worker/test_s3_answers.py::test_a_name_that_cannot_be_read_is_a_problem_of_its_item"),
    Edge("Such names beside jobs, as `jobs//x`", "a program with the job's rights", "`tidemill jobs`, workers",
        "the journal names the jobs; the worker goes on",
        "worker/test_s3_answers.py::test_jobs_are_listed_whatever_a_program_has_stored"),
    Edge("Log lines", "items", "the terminal of who reads them", "control characters are shown, not obeyed",
        _OUT + "test_the_terminal_sees_text"),
    Edge("What a cloud says", "a cloud, and names that people chose", "the terminal", "as above",
        "unit/client/watch/test_explain.py::test_what_a_cloud_says_cannot_steer_a_terminal"),
    Edge("Texts in a report", "items, metadata of items", "a browser", "one door for text; no script runs",
        "unit/client/report/test_page.py::test_hostile_texts_stay_texts"),
    # Messages, and GCP's reconciler.
    Edge("GCP: a message of the queue", "submitters, the reconciler", "workers",
        "all attributes are there; what they name is compared by SHA-256; any other goes to the dead letters",
        "unit/services/test_pubsub_leases.py::test_a_message_without_an_attribute"),
    Edge("GCP: `fleet/held/*`: the topic", "submitters", "the reconciler, which publishes",
        "a topic of the stack's queues, from its settings",
        "unit/client/rounds/test_predecessors_gcp.py::test_a_topic_of_other_things_is_never_published_to"),
    Edge(
        "GCP: `fleet/held/*` and what it names: content",
        "submitters, and any job of the team",
        "the reconciler",
        "sizes and shapes; one that is damaged ends its own job",
        "unit/client/rounds/test_predecessors_gcp.py::test_a_job_whose_objects_a_program_has_damaged_ends_those_after_it_and_no_others",
    ),
    Edge("GCP: the rounds of a job, all together", "any job of the team", "the reconciler, with 512 MiB",
        "the sum of their bytes",
        "unit/client/rounds/test_predecessors_gcp.py::test_the_rounds_of_a_job_cannot_fill_the_memory_together"),
    Edge("GCP: objects of a job with messages left", "any job of the team", "the reconciler",
        "one that is damaged keeps no other from being dropped",
        "unit/fleet/test_ended_jobs.py::test_what_a_program_writes_into_its_job_keeps_no_other_messages"),
    Edge("GCP: `fleet/` that machines do not write", "any container, with the machine's account",
        "the reconciler, machines, clients", "they have no right to write it (above)",
        "attack/test_out_of_gcp.py::test_no_way_leads_out"),
    # CI.
    Edge("A pull request", "whoever may open one", "CI's reader, and reviewers",
        "the comment is quoted text; forks get no login",
        "ops/test_review_text.py::test_a_hostile_stack_forges_nothing_in_the_whole_comment"),
    Edge("A token of GitHub", "a job of any branch that names an environment", "AWS: the trust of CI's writer",
        "repository, environment and branch", "components/test_aws_ci.py::test_only_the_branch_deploys"),
    Edge("The same on GCP", "a job of any branch that names an environment", "the identity pool",
        "repository, environment and branch", "components/test_gcp_ci.py::test_only_the_branch_deploys"),
    Edge("A token of GitLab on AWS", "a job of the branch, or of a merge request from it",
        "the trust of every CI writer of the account", "project and branch; merged results pipelines must be off",
        "components/test_aws_ci.py::test_on_gitlab_a_branch_of_the_project_reads_and_the_protected_one_writes"),
    Edge("The same on GCP", "a job of any branch, or of a merge request", "the identity pool",
        "project, a push, protected branch, protected environment",
        "components/test_gcp_ci.py::test_on_gitlab_only_a_protected_environment_on_the_protected_branch_deploys"),
    Edge("Files beside the program, such as `click.py` and `GNUmakefile`", "whoever may merge without an owner",
        "Python, make, uv and Pulumi, with CI's logins", "a review finding, and owners",
        "ops/test_guardrails.py::test_what_the_review_guards_has_an_owner"),
    Edge("A token of GitLab or GitHub", "a repository that gets the path later", "CI's identities on both clouds",
        "the numbers of `ci.repository`",
        "components/test_aws_ci.py::test_with_its_number_a_project_of_gitlab_is_bound_and_its_branch_must_be_protected"),
    Edge("AWS: policies that people carry", "CI's writer of an environment", "the logins of people",
        "it may write none; people assume a role with the environment's boundary",
        "components/test_aws_identity.py::test_with_a_boundary_the_submitter_role_alone_has_the_permissions"),
    # Laptops.
    Edge("Folders that a submit sends", "the person, their tools", "everyone who reads the store",
        "what looks like a login or a private key is refused or left out",
        "unit/test_code.py::test_what_looks_like_a_secret_is_refused_by_name_unless_it_is_ignored_or_wanted"),
]  # fmt: skip
