#!/usr/bin/env bash
# oidc-provider 9.13.3: a registration that names a scope of a resource server is refused, since only scopes that the provider
# itself lists may be in one; without a scope, the same client is registered.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-fund --no-audit oidc-provider@9.13.3
cat > register.mjs <<'JS'
import { Provider } from "oidc-provider";

const provider = new Provider("http://127.0.0.1", {
  features: {
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => "http://127.0.0.1/mcp",
      getResourceServerInfo: () => ({ scope: "notes:read" }),
    },
  },
});
const server = provider.listen(0, "127.0.0.1", async () => {
  async function registered(more) {
    const answer = await fetch(`http://127.0.0.1:${server.address().port}/reg`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        application_type: "native",
        redirect_uris: ["http://127.0.0.1:8000/callback"],
        token_endpoint_auth_method: "none",
        ...more,
      }),
    });
    const { error, error_description } = await answer.json();
    return [answer.status, error, error_description].filter(Boolean).join(" ");
  }
  const [without, named] = [await registered({}), await registered({ scope: "notes:read" })];
  console.log("without scope:", without);
  console.log("with the resource server's scope:", named);
  server.close();
  process.exitCode = without === "201" && named.startsWith("400 invalid_client_metadata") ? 0 : 1;
});
JS
npm ls --depth=0 | tail -n +2
node register.mjs 2>warnings.log
