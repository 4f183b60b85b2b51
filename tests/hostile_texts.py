"""Texts that mean something to SQL, shells, patterns and templates, and are names here."""

from __future__ import annotations

HOSTILE = (
    "'; DROP TABLE quarantine; --",
    "' OR '1'='1",
    "\\' OR 1=1 --",
    "\\",
    "\\\\'",
    "a'b\"c`d",
    "${env:HOME}",
    "$${env:HOME}{env:HOME}",
    "${spark.app.name} ${system:user.home}",
    "\\${env:HOME}",
    "$\\{env:HOME}",
    "/* */ -- x\n* _ % \\% \\_ \\n \\u0041 \\101",
    "line\nbreak\r\ttab\x00\x1b[31m\u2028\u202e😀",
    ":name ? {0} {} %s",
    "{{ 7*7 }}",
    "__import__('os').getcwd()",
    "`",
    "[a-z]+|.+",
    "",
)
