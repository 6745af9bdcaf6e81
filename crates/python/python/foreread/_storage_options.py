"""Options of fsspec's file systems, converted to settings of the native stores.

The native clients read the environment variables of the Rust crate `object_store`.
`storage_options` override them. Their names are those of s3fs, gcsfs and adlfs, or those of the
variables in lower case (`aws_region`).
"""

from __future__ import annotations

import json
import os
import re
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

Settings = list[tuple[str, str]]
StorageOptions = Mapping[str, Any]

KINDS = {
    "s3": "aws",
    "s3a": "aws",
    "gs": "google",
    "az": "azure",
    "adl": "azure",
    "azure": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "https": "web",
    "http": "web",
}

# Options that affect only fsspec's caches, listings and writes, not reads of objects.
_WITHOUT_EFFECT = {
    "access",
    "asynchronous",
    "auto_mkdir",
    "batch_size",
    "block_size",
    "blocksize",
    "cache_regions",
    "cache_timeout",
    "cache_type",
    "consistency",
    "default_block_size",
    "default_cache_type",
    "default_fill_cache",
    "default_intelligent_tiering",
    "dircache",
    "fixed_upload_size",
    "listings_expiry_time",
    "loop",
    "max_concurrency",
    "max_paths",
    "project",
    "secure_serialize",
    "simple_links",
    "skip_instance_cache",
    "use_listings_cache",
    "version_aware",
}

# Settings of the HTTP client, common to all kinds of stores.
_OF_CLIENT = {
    "allow_http",
    "allow_invalid_certificates",
    "ca_bundle",
    "connect_timeout",
    "connections",
    "http1_only",
    "http2_only",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_ca_certificate",
    "proxy_excludes",
    "proxy_url",
    "randomize_addresses",
    "read_timeout",
    "user_agent",
}

_NAMES = {
    "aws": {
        "key": "aws_access_key_id",
        "username": "aws_access_key_id",
        "secret": "aws_secret_access_key",
        "password": "aws_secret_access_key",
        "token": "aws_session_token",
        "region": "aws_region",
        "region_name": "aws_region",
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
    },
    "google": {},
    "azure": {
        "account_name": "azure_storage_account_name",
        "account_key": "azure_storage_account_key",
        "sas_token": "azure_storage_sas_key",
        "tenant_id": "azure_storage_tenant_id",
        "client_id": "azure_storage_client_id",
        "client_secret": "azure_storage_client_secret",
    },
    "web": {},
}

_SKIP_SIGNATURE = {
    "aws": "aws_skip_signature",
    "google": "google_skip_signature",
    "azure": "azure_skip_signature",
}

_ENDPOINT = {
    "aws": "aws_endpoint_url",
    "google": "google_base_url",
    "azure": "azure_storage_endpoint",
}


def is_url(text: str) -> bool:
    """Return whether a text has a scheme and `://`; use `./s3:..` for a file with such a name."""
    return re.match(r"[A-Za-z0-9]+://", text) is not None


def settings_of(url: str, options: StorageOptions) -> Settings:
    """Return the settings for the store of a URL, in an order independent of the options' order.

    An option without a counterpart is a ValueError, because it could be a credential.
    """
    scheme = url.split("://", 1)[0].lower()
    kind = KINDS.get(scheme)
    if kind is None:
        return []
    settings: Settings = []
    for name, value in sorted(options.items()):
        if value is not None and name not in _WITHOUT_EFFECT:
            settings += _settings_of_one(kind, name, value, options)
    if kind == "aws" and _is_virtual(options):
        settings += _bucket_in_host(url, settings)
    return settings


def _is_virtual(options: StorageOptions) -> bool:
    empty: dict[str, Any] = {}
    of_s3 = (options.get("config_kwargs") or empty).get("s3") or empty
    return bool(of_s3.get("addressing_style") == "virtual")


def _bucket_in_host(url: str, settings: Settings) -> Settings:
    """Return the endpoint with the bucket in its host, like botocore's.

    The native client uses the endpoint as given.
    """
    endpoint = dict(settings).get("aws_endpoint_url")
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        endpoint = endpoint or os.environ.get(name)
    bucket = urllib.parse.urlsplit(url).netloc
    parts = urllib.parse.urlsplit(endpoint or "")
    if not parts.netloc or parts.netloc.startswith(f"{bucket}."):
        return []
    return [("aws_endpoint_url", parts._replace(netloc=f"{bucket}.{parts.netloc}").geturl())]


def _settings_of_one(kind: str, name: str, value: Any, options: StorageOptions) -> Settings:
    nested = _NESTED.get((kind, name))
    if nested is not None:
        return nested(value)
    if name == "anon" and kind in _SKIP_SIGNATURE:
        return [(_SKIP_SIGNATURE[kind], _text(bool(value)))]
    if name in ("endpoint_url", "endpoint") and kind in _ENDPOINT:
        return _endpoint(kind, value)
    if name == "use_ssl" and kind == "aws":
        return [] if value else [("aws_allow_http", "true")]
    if name == "requester_pays" and kind == "aws":
        return [("aws_request_payer", _text(bool(value)))]
    if name == "account_host" and kind == "azure":
        return _endpoint(kind, f"https://{value}")
    known = _NAMES[kind].get(name)
    if known is not None:
        return [(known, _text(value))]
    if name in _OF_CLIENT:
        return [(name, _text(value))]
    if name.startswith(f"{kind}_"):
        return [(name, _text(value))]
    raise ValueError(
        f"storage_options: {name!r} has no counterpart in the native stores: leave it out, use a "
        "name of an environment variable in lower case (aws_region), or open the file as "
        "foreread::URL of fsspec"
    )


def _endpoint(kind: str, value: Any) -> Settings:
    url = _text(value)
    settings = [(_ENDPOINT[kind], url)]
    # The caller has explicitly named an endpoint without TLS.
    return [*settings, ("allow_http", "true")] if url.startswith("http://") else settings


def _of_client_kwargs(value: Any) -> Settings:
    """Convert `client_kwargs` of s3fs, the arguments of botocore's `create_client`."""
    settings: Settings = []
    for name, each in sorted(dict(value).items()):
        if each is None:
            continue
        if name == "endpoint_url":
            settings += _endpoint("aws", each)
        elif name == "use_ssl":
            settings += [] if each else [("aws_allow_http", "true")]
        elif name == "verify" and isinstance(each, bool):
            settings += [] if each else [("allow_invalid_certificates", "true")]
        elif name == "verify" and isinstance(each, (str, os.PathLike)) and os.fspath(each):
            settings.append(("ca_bundle", os.fspath(each)))
        elif name in ("region_name", "aws_access_key_id", "aws_secret_access_key"):
            settings.append(("aws_region" if name == "region_name" else name, _text(each)))
        elif name == "aws_session_token":
            settings.append((name, _text(each)))
        else:
            raise _no_counterpart("client_kwargs", name)
    return settings


def _of_config_kwargs(value: Any) -> Settings:
    """Convert `config_kwargs` of s3fs, the arguments of botocore's `Config`."""
    settings: Settings = []
    for name, each in sorted(dict(value).items()):
        if name in ("max_pool_connections", "retries", "tcp_keepalive"):
            continue
        if name in ("connect_timeout", "read_timeout"):
            settings.append((name, f"{each} s"))
        elif name == "region_name":
            settings.append(("aws_region", _text(each)))
        elif name == "signature_version" and repr(each).endswith("UNSIGNED"):
            settings.append(("aws_skip_signature", "true"))
        elif name == "s3" and set(each) <= {"addressing_style"}:
            if each.get("addressing_style") == "virtual":
                settings.append(("aws_virtual_hosted_style_request", "true"))
        else:
            raise _no_counterpart("config_kwargs", name)
    return settings


def _of_google_token(value: Any) -> Settings:
    """Convert `token` of gcsfs."""
    if isinstance(value, dict):
        return [("google_service_account_key", json.dumps(value))]
    if value == "anon":
        return [("google_skip_signature", "true")]
    if value in ("google_default", "cloud"):
        # The native client's default order: the environment, then the machine's account.
        return []
    if isinstance(value, str) and value not in ("browser", "cache"):
        return [("google_application_credentials", value)]
    raise ValueError("storage_options: token: give 'anon', a file of credentials, or their dict")


def _of_connection_string(value: Any) -> Settings:
    """Convert `connection_string` of adlfs."""
    names = {
        "accountname": "azure_storage_account_name",
        "accountkey": "azure_storage_account_key",
        "sharedaccesssignature": "azure_storage_sas_key",
    }
    parts: dict[str, str] = {}
    for part in filter(None, str(value).split(";")):
        name, _, each = part.partition("=")
        parts[name.strip().lower()] = each
    settings = [(names[name], each) for name, each in parts.items() if name in names]
    if "blobendpoint" in parts:
        settings += _endpoint("azure", parts["blobendpoint"])
    elif "endpointsuffix" in parts and "accountname" in parts:
        # Sovereign and private clouds.
        scheme = parts.get("defaultendpointsprotocol", "https")
        host = f"{parts['accountname']}.blob.{parts['endpointsuffix']}"
        settings += _endpoint("azure", f"{scheme}://{host}")
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        settings.append(("azure_storage_use_emulator", "true"))
    return settings


_NESTED: dict[tuple[str, str], Callable[[Any], Settings]] = {
    ("aws", "client_kwargs"): _of_client_kwargs,
    ("aws", "config_kwargs"): _of_config_kwargs,
    ("azure", "connection_string"): _of_connection_string,
    ("google", "token"): _of_google_token,
}


def _no_counterpart(where: str, name: str) -> ValueError:
    return ValueError(f"storage_options: {where}: {name!r} has no counterpart in the native stores")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
