"""What a worker's environment holds: an allow-list, never the runtime's own environment."""

from collections.abc import Mapping

ALLOWED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TERM",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy",
    "all_proxy",
})  # fmt: skip
ALLOWED_PREFIXES = ("LC_",)

# These name another repository (or a config of somebody's choosing) to every git below us.
FOREIGN_GIT = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_CEILING_DIRECTORIES",
    "GIT_CONFIG", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT", "GIT_QUARANTINE_PATH", "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE", "GIT_REPLACE_REF_BASE", "GIT_EXTERNAL_DIFF", "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_ATTR_SOURCE", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
)  # fmt: skip


def common_environment(environ: Mapping[str, str], passed: tuple[str, ...] = ()) -> dict[str, str]:
    """Take what every worker may see from `environ`, and the names in `passed` beside it."""
    return {
        name: value
        for name, value in environ.items()
        if name in ALLOWED or name.startswith(ALLOWED_PREFIXES) or name in passed
    }


def drop_foreign_git(environ: dict[str, str]) -> None:
    """Take the variables that point git at another repository out of `environ`, in place."""
    for name in list(environ):
        if name in FOREIGN_GIT or name.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_")):
            del environ[name]
