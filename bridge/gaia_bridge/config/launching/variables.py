"""Environment variables that decide what a program runs: the one who sets them can run other code in it.

None of them is ever a secret, so that they can be shown to the person who approves a launch line.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

CHANGING: Final[dict[str, tuple[str, ...]]] = {
    "makes the program run other code than its own": (
        *("BASH_ENV", "ENV", "BASH_FUNC_*", "SHELLOPTS", "PS4", "PROMPT_COMMAND", "ZDOTDIR", "IFS", "COMSPEC"),
        *("LD_*", "DYLD_*", "GCONV_PATH", "GTK_MODULES", "QT_PLUGIN_PATH", "OPENSSL_*"),
        *("NODE_OPTIONS", "NODE_PATH", "NODE_COMPILE_CACHE", "NODE_REPL_EXTERNAL_MODULE", "TS_NODE_*", "BUN_OPTIONS"),
        *("BUN_INSPECT_PRELOAD", "DENO_DIR", "ELECTRON_RUN_*"),
        *("PYTHONBREAKPOINT", "PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH", "PYTHONPLATLIBDIR", "PYTHONPYCACHEPREFIX"),
        *("PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONWARNINGS", "PYTHONEXECUTABLE", "VIRTUAL_ENV", "CONDA_PREFIX"),
        *("PERL5DB", "PERL5LIB", "PERL5OPT", "PERLLIB", "RUBYLIB", "RUBYOPT", "BUNDLE_*", "GEM_HOME", "GEM_PATH"),
        *("JAVA_TOOL_OPTIONS", "JAVA_OPTS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "MAVEN_OPTS", "GRADLE_*"),
        *("DOTNET_STARTUP_HOOKS", "DOTNET_ADDITIONAL_DEPS", "DOTNET_SHARED_STORE", "CORECLR_*", "COR_*"),
        *("PHPRC", "PHP_INI_SCAN_DIR", "LUA_INIT*", "LUA_PATH*", "LUA_CPATH*", "R_PROFILE*", "R_ENVIRON*"),
        *("ERL_AFLAGS", "ERL_FLAGS", "ERL_ZFLAGS", "ERL_LIBS", "ELIXIR_ERL_OPTIONS", "JULIA_*", "GHCRTS"),
        *("PSMODULEPATH", "VIMINIT", "EXINIT"),
    ),
    "decides which programs are found, or started as helpers": (
        *("PATH", "PATHEXT", "SHELL", "HOME", "USERPROFILE", "XDG_CONFIG_*", "XDG_DATA_*", "APPDATA", "CDPATH"),
        *("JAVA_HOME",),
        *("GIT_*", "SSH_ASKPASS", "SUDO_ASKPASS", "EDITOR", "VISUAL", "PAGER", "MANPAGER", "LESSOPEN", "LESSCLOSE"),
        *("BROWSER", "CC", "CXX", "CPP", "LD", "MAKEFLAGS", "CFLAGS", "CXXFLAGS", "LDFLAGS", "RUSTC*", "RUSTFLAGS"),
        *("CARGO_*", "GOFLAGS", "GOROOT", "GOTOOLCHAIN", "DOTNET_ROOT*", "DOCKER_HOST", "DOCKER_CONFIG", "KUBECONFIG"),
        *("GIT_SSH*", "RSYNC_RSH", "TAR_OPTIONS"),
        *("ANSIBLE_*", "UV_PYTHON*", "PYENV_*", "NVM_*", "VOLTA_*", "MISE_*", "ASDF_*", "npm_node_execpath"),
    ),
    "decides where code is downloaded from": (
        *("UV_*", "PIP_*", "PIPX_*", "POETRY_*", "PDM_*", "CONDA_*", "npm_config_*", "YARN_*", "PNPM_*", "COREPACK_*"),
        *("GOPROXY", "GONOSUMDB", "GONOSUMCHECK", "GOSUMDB", "GOINSECURE", "GOPRIVATE", "HOMEBREW_*", "DENO_*"),
        *("NPM_CONFIG_*", "BUN_CONFIG_*", "NUGET_*", "PLAYWRIGHT_DOWNLOAD_HOST", "PUPPETEER_*", "HF_ENDPOINT"),
    ),
    "decides whom the program believes, and who reads along": (
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
        *("SSLKEYLOGFILE",),
        *("NODE_TLS_REJECT_UNAUTHORIZED", "PYTHONHTTPSVERIFY", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY"),
        *("HOSTALIASES", "RES_OPTIONS", "LOCALDOMAIN", "RESOLV_HOST_CONF"),
    ),
}
"""Names and patterns of names, by reason; upper and lower case are the same."""


def reason_of(name: str) -> str | None:
    """Return the reason why a variable deserves a second look; `None` if it does not."""
    for reason, patterns in CHANGING.items():
        if any(fnmatchcase(name.upper(), pattern.upper()) for pattern in patterns):
            return reason
    return None


def changes_programs(name: str) -> bool:
    """Return whether a variable decides what a program runs."""
    return reason_of(name) is not None
