"""Programs that break every rule of a cloud; tests/engine/test_policy_pack.py previews them.

They use the clouds' own SDKs, so that the rules see what a provider makes of them. Types without a row in localcloud
are registered by token and inputs alone.
"""

AWS = """
import json
import pulumi
import pulumi_aws as aws

GITHUB = "arn:aws:iam::123456789012:oidc-provider/token.actions.githubusercontent.com"


def document(*actions, **more):
    return json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": list(actions), "Resource": "*"} | more]})


def trust(principal):
    return json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": principal}]})


vpc = aws.ec2.Vpc("vpc", cidr_block="10.0.0.0/16")
aws.ec2.Subnet("subnet", vpc_id=vpc.id, cidr_block="10.0.0.0/20", map_public_ip_on_launch=True)
aws.vpc.SecurityGroupIngressRule("open", security_group_id="sg-1", ip_protocol="tcp", from_port=22, to_port=22,
                                 cidr_ipv4="0.0.0.0/0")
template = aws.ec2.LaunchTemplate(
    "workers",
    metadata_options={"http_tokens": "optional"},
    block_device_mappings=[{"device_name": "/dev/xvda", "ebs": {"volume_size": 70}}],
    network_interfaces=[{"associate_public_ip_address": "true"}],
)


def environment(name, kind, **more):
    return aws.batch.ComputeEnvironment(name, type="MANAGED", compute_resources={
        "type": kind, "max_vcpus": 100000, "min_vcpus": 4, "instance_types": ["c6i.large", "zz9.large"],
        "subnets": ["subnet-1"], "security_group_ids": ["sg-1"], "ec2_configurations": [{"image_type": "ECS_AL2"}],
        "launch_template": {"launch_template_id": template.id, "version": "$Latest"}}, **more)


environment("spot", "SPOT")
dear = environment("dear", "EC2", service_role="arn:aws:iam::123456789012:role/batch-service")
aws.batch.JobQueue("queue", state="ENABLED", priority=1,
                   compute_environment_orders=[{"order": 1, "compute_environment": dear.arn}])
aws.batch.JobDefinition("job", type="container", container_properties=json.dumps(
    {"image": "a", "privileged": True, "resourceRequirements": []}))
aws.iam.Policy("submitter", policy=document("batch:SubmitJob", "batch:Register*"))
role = aws.iam.Role("person", assume_role_policy=trust("*"))
aws.iam.Role("ci", assume_role_policy=trust({"Federated": GITHUB}))
aws.iam.RolePolicy("submit", role=role.id, policy=document("batch:SubmitJob"))
aws.iam.RolePolicy("pass", role=role.id, policy=document("iam:PassRole"))
aws.s3.Bucket("open")
aws.ecr.Repository("images")
aws.kms.Key("key", description="never changes")
aws.efs.FileSystem("open")
aws.cloudwatch.LogGroup("lines")
pulumi.ComponentResource("aws:iam/accessKey:AccessKey", "static", {"user": "ci"})
"""

GCP = """
import pulumi
import pulumi_gcp as gcp

worker = gcp.serviceaccount.Account("worker", account_id="worker")
bad = gcp.compute.RegionInstanceTemplate(
    "declared",
    machine_type="n2-standard-16",
    region="us-central1",
    disks=[{"source_image": "projects/cos-cloud/global/images/family/cos-stable", "boot": True}],
    network_interfaces=[{"network": "default", "access_configs": [{}]}],
    metadata={"gce-container-declaration": "spec: {}"},
    service_account={"email": "123456789012-compute@developer.gserviceaccount.com", "scopes": ["cloud-platform"]},
    scheduling={"provisioning_model": "STANDARD"},
)
odd = gcp.compute.RegionInstanceTemplate(
    "unpriced",
    machine_type="zz9-standard-16",
    region="us-central1",
    disks=[{"source_image": "projects/cos-cloud/global/images/family/cos-stable", "boot": True}],
    network_interfaces=[{"network": "default"}],
    service_account={"email": worker.email, "scopes": ["cloud-platform"]},
    scheduling={"provisioning_model": "SPOT", "preemptible": True},
)
for name, template in {"bad": bad, "odd": odd}.items():
    group = gcp.compute.RegionInstanceGroupManager(
        name,
        base_instance_name=name,
        region="us-central1",
        versions=[{"instance_template": template.id}],
        update_policy={"type": "PROACTIVE", "minimal_action": "REPLACE", "max_surge_fixed": 3},
    )
    gcp.compute.RegionAutoscaler(
        name, target=group.id, region="us-central1", autoscaling_policy={"max_replicas": 5000, "min_replicas": 6})
gcp.compute.Firewall("open", network="default", direction="INGRESS", allows=[{"protocol": "tcp"}],
                     source_ranges=["0.0.0.0/0"])
topic = gcp.pubsub.Topic("work")
gcp.pubsub.Subscription("work", topic=topic.id)
gcp.storage.Bucket("open", location="us-central1")
gcp.artifactregistry.Repository("images", repository_id="images", format="DOCKER", location="us-central1")
gcp.filestore.Instance("open", tier="BASIC_HDD", location="us-central1-a",
                       file_shares={"name": "share", "capacity_gb": 1024},
                       networks=[{"network": "default", "modes": ["MODE_IPV4"]}])
ring = gcp.kms.KeyRing("ring", location="us-central1")
gcp.kms.CryptoKey("key", key_ring=ring.id)
gcp.logging.ProjectBucketConfig("lines", project="p", bucket_id="lines", location="us-central1", retention_days=5000)
gcp.cloudfunctionsv2.Function(
    "run", location="us-central1",
    build_config={"runtime": "python312", "entry_point": "run",
                  "source": {"storage_source": {"bucket": "b", "object": "o"}}},
    service_config={"available_memory": "256Mi"})
gcp.projects.IAMMember("all", project="p", role="roles/editor", member="user:a@example.com")
gcp.storage.BucketIAMMember("public", bucket="b", role="roles/storage.objectViewer", member="allUsers")
gcp.projects.IAMMember("machines", project="p", role="roles/compute.instanceAdmin.v1",
                       member=worker.email.apply(lambda email: f"serviceAccount:{email}"))
gcp.pubsub.TopicIAMMember("submit", topic=topic.id, role="roles/pubsub.publisher", member="user:a@example.com")
gcp.serviceaccount.IAMMember("act", service_account_id=worker.name, role="roles/iam.serviceAccountUser",
                             member="user:a@example.com")
pulumi.ComponentResource("gcp:serviceaccount/key:Key", "static", {"serviceAccountId": "ci"})
pulumi.ComponentResource(
    "gcp:iam/workloadIdentityPoolProvider:WorkloadIdentityPoolProvider", "github",
    {"oidc": {"issuerUri": "https://token.actions.githubusercontent.com"}})
"""
