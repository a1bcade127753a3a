// A team's pipeline from TypeScript. The first up needs the SDK: pulumi package add …/tidemill/plugin (docs/languages.md).
import * as pulumi from "@pulumi/pulumi";
import * as tidemill from "@pulumi/tidemill";

const image = "docker.io/library/python@sha256:d650b593947451ceca829edefb119f6492340416b222d820c181fbcf6ae0223b";
const purge = new pulumi.Config().getBoolean("purge") ?? false;

const pipeline = new tidemill.Pipeline("vision-dev", {
    config: {
        team: "vision",
        environment: "dev",
        queues: {
            cpu: {
                images: { default: image },
                item: { cpus: 1, memoryMib: 2048 },
                capacity: [{ market: "spot", maxCpus: 64 }, { market: "on_demand", maxCpus: 8 }],
            },
        },
        allow: purge ? ["purge"] : [],
    },
});

export const pipelineUri = pipeline.descriptorUri;
