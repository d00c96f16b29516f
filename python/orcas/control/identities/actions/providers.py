"""Providers of OpenID Connect, whose tokens `AssumeRoleWithWebIdentity` takes.

Thumbprints are stored and not used, as on AWS with most providers: certificates are verified as usual.
"""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import urlsplit

from orcas.control.identities.actions.entities import check_new
from orcas.control.identities.actions.shown import shown_tags
from orcas.control.identities.calls import Answer, Call
from orcas.control.identities.failures import IamError, limit
from orcas.control.identities.names import PROVIDER, TAGS_MAX, time_of
from orcas.control.identities.records import Entity
from orcas.control.identities.registry import action

_CLIENTS_MAX: Final = 100
_THUMBPRINTS_MAX: Final = 5
_URL: Final = re.compile(r"https://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/-]*)?", re.ASCII)
_THUMBPRINT: Final = re.compile(r"[0-9A-Fa-f]{40}", re.ASCII)


async def _provider(call: Call) -> Entity:
    arn = call.parameters.arn("OpenIDConnectProviderArn")
    name = arn.partition(f":{PROVIDER}/")[2]
    provider = await call.records.find(call.account.id, PROVIDER, name)
    if provider is None or provider.arn != arn:
        raise IamError("NoSuchEntity", f"OpenIDConnect Provider not found for arn {arn}")
    return provider


def _clients(found: list[str]) -> list[str]:
    if not all(0 < len(each) <= 255 for each in found):
        raise IamError("InvalidInput", "A client id has from 1 to 255 characters.")
    if len(found) > _CLIENTS_MAX:
        raise limit("ClientIdsPerOpenIdConnectProvider", _CLIENTS_MAX)
    return list(dict.fromkeys(found))


def _thumbprints(found: list[str]) -> list[str]:
    if not all(_THUMBPRINT.fullmatch(each) for each in found):
        raise IamError("InvalidInput", "A thumbprint has 40 hexadecimal digits.")
    if len(found) > _THUMBPRINTS_MAX:
        raise limit("ThumbprintsPerOpenIdConnectProvider", _THUMBPRINTS_MAX)
    return found


@action("provider", "CreateOpenIDConnectProvider")
async def create_open_id_connect_provider(call: Call) -> Answer:
    """A provider. Only an operator can say where its keys are; else that is asked of the provider."""
    parameters = call.parameters
    url = parameters.text("Url", 255)
    host = urlsplit(url).hostname if _URL.fullmatch(url) else None
    if host is None:
        raise IamError("ValidationError", "Invalid Open ID Connect Provider URL: it begins with https:// and a host.")
    details: dict[str, Any] = {
        "url": url, "clients": _clients(parameters.texts("ClientIDList", 255)),
        "thumbprints": _thumbprints(parameters.texts("ThumbprintList", 40)),
    }  # fmt: skip
    if call.operator:
        details["jwks_file"], details["jwks_url"] = parameters.optional("JwksFile"), parameters.optional("JwksUrl")
    tags, name = parameters.tags(), url.removeprefix("https://")
    await check_new(call, PROVIDER, name, "/")
    provider = await call.records.add(call.account, PROVIDER, name, "/", details=details)
    await call.records.set_tags(provider, tags)
    return {"OpenIDConnectProviderArn": provider.arn, "Tags": [shown_tags(tag) for tag in tags]}


@action("provider", "GetOpenIDConnectProvider")
async def get_open_id_connect_provider(call: Call) -> Answer:
    """A provider."""
    provider = await _provider(call)
    return {
        "Url": provider.name, "ClientIDList": provider.details["clients"],
        "ThumbprintList": provider.details["thumbprints"], "CreateDate": time_of(provider.created_ms),
        "Tags": [shown_tags(tag) for tag in await call.records.tags(provider)],
    }  # fmt: skip


@action("account", "ListOpenIDConnectProviders")
async def list_open_id_connect_providers(call: Call) -> Answer:
    """All of an account."""
    found = await call.records.entities(call.account.id, PROVIDER)
    return {"OpenIDConnectProviderList": [{"Arn": provider.arn} for provider in found]}


@action("provider", "DeleteOpenIDConnectProvider")
async def delete_open_id_connect_provider(call: Call) -> Answer:
    """Delete a provider. Sessions that there are go on."""
    await call.records.remove(await _provider(call))
    return {}


async def _update(call: Call, provider: Entity, **details: Any) -> Answer:
    await call.records.update(provider, details={**provider.details, **details})
    return {}


@action("provider", "UpdateOpenIDConnectProviderThumbprint")
async def update_open_id_connect_provider_thumbprint(call: Call) -> Answer:
    """Replace its thumbprints."""
    provider = await _provider(call)
    return await _update(call, provider, thumbprints=_thumbprints(call.parameters.texts("ThumbprintList", 40)))


@action("provider", "AddClientIDToOpenIDConnectProvider")
async def add_client_id_to_open_id_connect_provider(call: Call) -> Answer:
    """Take tokens for this client too."""
    provider = await _provider(call)
    return await _update(
        call, provider, clients=_clients([*provider.details["clients"], call.parameters.text("ClientID", 255)])
    )


@action("provider", "RemoveClientIDFromOpenIDConnectProvider")
async def remove_client_id_from_open_id_connect_provider(call: Call) -> Answer:
    """Take no tokens for this client."""
    provider, client = await _provider(call), call.parameters.text("ClientID", 255)
    return await _update(call, provider, clients=[each for each in provider.details["clients"] if each != client])


@action("provider", "TagOpenIDConnectProvider")
async def tag_open_id_connect_provider(call: Call) -> Answer:
    """Add tags."""
    provider, tags = await _provider(call), call.parameters.tags()
    known = {name.lower() for name, _ in [*await call.records.tags(provider), *tags]}
    if len(known) > TAGS_MAX:
        raise limit("TagsPerOpenIdConnectProvider", TAGS_MAX)
    await call.records.set_tags(provider, tags)
    return {}


@action("provider", "UntagOpenIDConnectProvider")
async def untag_open_id_connect_provider(call: Call) -> Answer:
    """Remove tags."""
    await call.records.drop_tags(await _provider(call), call.parameters.texts("TagKeys", 128))
    return {}


@action("provider", "ListOpenIDConnectProviderTags")
async def list_open_id_connect_provider_tags(call: Call) -> Answer:
    """The tags of a provider."""
    provider, page = await _provider(call), call.parameters.page()
    return page.of("Tags", await call.records.tags(provider), lambda tag: tag[0], shown_tags)
