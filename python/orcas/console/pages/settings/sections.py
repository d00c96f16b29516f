"""The table of settings that have a form: what each is called, its form, where its document is, and who may change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from orcas.console.documents import kinds
from orcas.console.documents.forms import Form
from orcas.console.pages.settings.sources import Configuration, Quota, Source, StoreSettings


@dataclass(frozen=True, slots=True)
class Section:
    """A setting. `about`: what it is for; `needs`: the action that changes it; `none`: what is so without a document."""

    slug: str
    title: str
    about: str
    form: Form
    source: Source
    needs: str
    none: str = "Not set."
    # What the button says that takes it away.
    remove: str = "Remove"


_SECTIONS: Final = (
    Section(
        "versioning", "Versioning", "Whether objects that are replaced or deleted are kept as old versions.",
        kinds.VERSIONING, Configuration("versioning", removable=False), "s3:PutBucketVersioning",
    ),
    Section(
        "lifecycle", "Lifecycle rules",
        "Remove objects, old versions and unfinished uploads after a time. The server applies the rules every hour.",
        kinds.LIFECYCLE, Configuration("lifecycle", "NoSuchLifecycleConfiguration"), "s3:PutLifecycleConfiguration",
        "No rules: nothing is removed by itself.", "Remove all rules",
    ),
    Section(
        "encryption", "Default encryption", "How new objects are encrypted whose requests do not say so.",
        kinds.ENCRYPTION, Configuration("encryption", "ServerSideEncryptionConfigurationNotFoundError"),
        "s3:PutEncryptionConfiguration", "Not set: as the server does by default.",
    ),
    Section(
        "object-lock", "Object lock", "Keep versions from being deleted or replaced for a time.",
        kinds.LOCK, Configuration("object-lock", "ObjectLockConfigurationNotFoundError", removable=False),
        "s3:PutBucketObjectLockConfiguration", "Off. It needs versioning.",
    ),
    Section(
        "public-access", "Public access block",
        "What overrides policies and access control lists that would open the bucket to everybody.",
        kinds.PUBLIC_ACCESS, Configuration("publicAccessBlock", "NoSuchPublicAccessBlockConfiguration"),
        "s3:PutBucketPublicAccessBlock", "Removed: nothing is blocked.", "Remove the block",
    ),
    Section(
        "ownership", "Object ownership", "To whose account objects belong, and whether access control lists count.",
        kinds.OWNERSHIP, Configuration("ownershipControls", "OwnershipControlsNotFoundError"),
        "s3:PutBucketOwnershipControls",
    ),
    Section(
        "cors", "Cross-origin requests (CORS)",
        "Which web pages of other addresses may use the bucket from a browser.",
        kinds.CORS, Configuration("cors", "NoSuchCORSConfiguration"), "s3:PutBucketCORS",
        "No rules: pages of other addresses may not.", "Remove all rules",
    ),
    Section(
        "website", "Website",
        "Serve the objects as pages of a website. The server needs ORCAS_WEBSITE_HOST, and the public access block must"
        " be off.",
        kinds.WEBSITE, Configuration("website", "NoSuchWebsiteConfiguration"), "s3:PutBucketWebsite",
        "No website.", "Remove the website",
    ),
    Section(
        "notifications", "Notifications",
        "Send events of the bucket to targets of the server: webhooks, Kafka, NATS or AWS.",
        kinds.NOTIFICATIONS, Configuration("notification", removable=False), "s3:PutBucketNotification",
        "None: no events are sent.",
    ),
    Section(
        "tags", "Tags", "Keys and values of the bucket, by which usage and cost can be reported.",
        kinds.TAGS, Configuration("tagging", "NoSuchTagSet"), "s3:PutBucketTagging", "No tags.", "Remove all tags",
    ),
    Section(
        "quota", "Quota", "How much the bucket may hold. A write that would exceed it is refused.",
        kinds.QUOTA, Quota(), "orcas:PutQuota", "No quota.", "Remove the quota",
    ),
    Section(
        "store", "Store settings",
        "How new objects of this bucket are stored, in place of the settings of the store.",
        kinds.STORE, StoreSettings(), "orcas:PutBucketSettings", "None: as the store does.", "Remove all settings",
    ),
)  # fmt: skip
SECTIONS: Final = {each.slug: each for each in _SECTIONS}
