# Logs a job in to a stack's account or project with GitLab's own token, without a stored key. To be sourced:
#   login "$row" preview|deploy      row: an element of `python -m ops affected --json`
# It fails where the row lacks a part: a job without a login would go on with its runner's.
login() {
  local identity cloud
  cloud="$(jq -er .cloud <<< "$1")" || return
  identity="$(jq -er --arg who "$2" '.login[$who] | select(. != "")' <<< "$1")" || return
  PULUMI_BACKEND_URL="$(jq -er .login.backend_url <<< "$1")" || return
  export PULUMI_BACKEND_URL
  if [ "$cloud" = aws ]; then
    AWS_WEB_IDENTITY_TOKEN_FILE="$(mktemp)" AWS_ROLE_ARN="$identity" AWS_REGION="$(jq -r .region <<< "$1")"
    printf '%s' "$TIDEMILL_AWS_TOKEN" > "$AWS_WEB_IDENTITY_TOKEN_FILE"
    export AWS_WEB_IDENTITY_TOKEN_FILE AWS_ROLE_ARN AWS_REGION
    return
  fi
  local provider token
  provider="$(jq -er '.login.provider | select(. != "")' <<< "$1")" || return
  if [ "$2" = deploy ]; then provider="$provider-deploy"; fi
  token="$(mktemp)" GOOGLE_APPLICATION_CREDENTIALS="$(mktemp)"
  printf '%s' "$TIDEMILL_GCP_TOKEN" > "$token"
  jq -n --arg provider "$provider" --arg token "$token" --arg account "$identity" '{
    type: "external_account", audience: "//iam.googleapis.com/\($provider)",
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt", token_url: "https://sts.googleapis.com/v1/token",
    credential_source: {file: $token},
    service_account_impersonation_url:
      "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/\($account):generateAccessToken"
  }' > "$GOOGLE_APPLICATION_CREDENTIALS"
  export GOOGLE_APPLICATION_CREDENTIALS
}
