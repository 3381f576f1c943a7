# The public headers as Doxygen reads them: their comments are written for whoever opens the file, and are handed on as
# they stand. The first block of a header says what it is for; a comment behind a member is about that member.
#
#     awk -f comments.awk <header>
NR == 1 && /^\/\// { print "/// \\file"; opening = 1 }
opening && !/^\/\// { opening = 0 }
opening { sub(/^\/\//, "///") }
# `int lanes{4};  // threads`, `done_outcome,  // why`, and what goes on below it: not a comment on a line of its own, and not one
# within a function.
behind && /^            +\/\/ / { sub(/\/\/ /, "///< "); print; next }
{ behind = 0 }
!opening && /^[^\/ ].*[;,}] +\/\/ |^    [^\/ ].*[;,}] +\/\/ / { behind = sub(/ \/\/ /, " ///< ") }
# Facts of a contract, one below the other: `/// Threads:  one.`
match($0, /\/\/\/ (Databases|Isolation|Lifetime|Returns|Threads|Throws|Time|Transaction): +/) {
    fact = substr($0, RSTART + 4, RLENGTH - 4)
    rest = substr($0, RSTART + RLENGTH)
    sub(/: +$/, "", fact)
    $0 = substr($0, 1, RSTART + 3) "- **" fact ":** " rest
}
{ print }
