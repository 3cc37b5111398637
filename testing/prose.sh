#!/bin/sh
# Checks pages and manifests for phrases that readers stumble over, and for sentences of more than 35 words. CONTRIBUTING.md has the
# rules. CHANGELOG.md is exempt: it keeps the words of its day.
set -eu
cd "$(dirname "$0")/.."
bad=0

phrases='(it|this|that|which|who|they) (is|are|was|were) no (?!longer)[a-z]+
(is|are) (told|asked|looked for|left alone)
(one that|those of|but for|from now on|no more|nobody.s|at once|anew)
(go|goes|going) on
as (it|they) (is|are)
by (itself|themselves)
allows? to [a-z]
needs? it not
as of [A-Z0-9]
beside (a|the|its|it|each|our|your)'
git grep -nPI -e "\b($(echo "$phrases" | paste -sd '|'))\b" -- '*.md' 'manifests/*.yaml' ':!CHANGELOG.md' && bad=1

git ls-files '*.md' ':!CHANGELOG.md' | xargs awk '
    function check(count, i, sentences, words) {
        count = split(text, sentences, /[.:;?!]([ *)]|$)|\n/)
        for (i = 1; i <= count; i++)
            if (split(sentences[i], words) > 35) { print page ":" sentences[i]; bad = 1 }
    }
    FNR == 1 { check(); page = FILENAME; text = ""; code = 0 }
    /^```/ { code = !code }
    code || /^(```|\||#|    |<!--)/ { text = text "\n"; next }
    /^$/ || /^ *([-*]|[0-9]+\.) / { text = text "\n" }
    { text = text " " $0 }
    END { check(); exit bad }' || bad=1
exit $bad
