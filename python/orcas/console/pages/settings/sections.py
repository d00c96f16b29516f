"""The table of settings that have a form: what each is called, its form, and where its document is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from orcas.console.documents import basics, lifecycle, sharing
from orcas.console.documents.forms import Form
from orcas.console.pages.settings.sources import Configuration, Quota, Source, StoreSettings


@dataclass(frozen=True, slots=True)
class Section:
    """A setting. `about` says what it is for; `none` what is so without a document; `remove` what the button says."""

    slug: str
    title: str
    about: str
    form: Form
    source: Source
    none: str = "Not set."
    remove: str = "Remove"
    # What is well-known of the document: its form in words.
    document: str = "XML"


SECTIONS: Final = {
    each.slug: each
    for each in (
        Section(
            "versioning",
            "Versioning",
            "Whether objects that are replaced or deleted are kept as old versions.",
            basics.VERSIONING,
            Configuration("versioning", removable=False),
        ),
        Section(
            "lifecycle",
            "Lifecycle rules",
            "Remove objects, old versions and unfinished uploads after a time. The server applies the rules every hour.",
            lifecycle.FORM,
            Configuration("lifecycle", "NoSuchLifecycleConfiguration"),
            "No rules: nothing is removed by itself.",
            "Remove all rules",
        ),
        Section(
            "encryption",
            "Default encryption",
            "How new objects are encrypted whose requests do not say so.",
            basics.ENCRYPTION,
            Configuration("encryption", "ServerSideEncryptionConfigurationNotFoundError"),
            "Not set: as the server does by default.",
        ),
        Section(
            "object-lock",
            "Object lock",
            "Keep versions from being deleted or replaced for a time.",
            basics.LOCK,
            Configuration("object-lock", "ObjectLockConfigurationNotFoundError", removable=False),
            "Off. It needs versioning.",
        ),
        Section(
            "public-access",
            "Public access block",
            "What overrides policies and access control lists that would open the bucket to everybody.",
            basics.PUBLIC_ACCESS,
            Configuration("publicAccessBlock", "NoSuchPublicAccessBlockConfiguration"),
            "Removed: nothing is blocked.",
            "Remove the block",
        ),
        Section(
            "ownership",
            "Object ownership",
            "To whose account objects belong, and whether access control lists count.",
            basics.OWNERSHIP,
            Configuration("ownershipControls", "OwnershipControlsNotFoundError"),
        ),
        Section(
            "cors",
            "Cross-origin requests (CORS)",
            "Which web pages of other addresses may use the bucket from a browser.",
            sharing.CORS,
            Configuration("cors", "NoSuchCORSConfiguration"),
            "No rules: pages of other addresses may not.",
            "Remove all rules",
        ),
        Section(
            "website",
            "Website",
            "Serve the objects as pages of a website. The server needs ORCAS_WEBSITE_HOST, and the public access block must"
            " be off.",
            sharing.WEBSITE,
            Configuration("website", "NoSuchWebsiteConfiguration"),
            "No website.",
            "Remove the website",
        ),
        Section(
            "notifications",
            "Notifications",
            "Send events of the bucket to targets of the server: webhooks, Kafka, NATS or AWS.",
            sharing.NOTIFICATIONS,
            Configuration("notification", removable=False),
        ),
        Section(
            "tags",
            "Tags",
            "Keys and values of the bucket, by which usage and cost can be reported.",
            basics.TAGS,
            Configuration("tagging", "NoSuchTagSet"),
            "No tags.",
            "Remove all tags",
        ),
        Section(
            "quota",
            "Quota",
            "How much the bucket may hold. A write that would exceed it is refused.",
            basics.QUOTA,
            Quota(),
            "No quota.",
            "Remove the quota",
            "JSON",
        ),
        Section(
            "store",
            "Store settings",
            "How new objects of this bucket are stored, in place of the settings of the store.",
            basics.STORE,
            StoreSettings(),
            "None: as the store does.",
            "Remove all settings",
            "header lines",
        ),
    )
}
