# The commands of CONTRIBUTING.md. `just` lists them.

_list:
    @just --list --unsorted

# Everything that CI runs
test:
    ci/test

# Format, lints, dependencies and the guide
lint:
    ci/lint

# The tests that boot no Linux
quick:
    cargo nextest run -E 'not binary(scenarios) & not test(transcript_of_)'

# The tests on kernels with lockdep, KASAN and kmemleak
debug:
    cargo nextest run --run-ignored only -E 'test(debug-)'

# Many more cases of the parsers' properties
properties cases="1000000":
    PROPTEST_CASES={{cases}} cargo nextest run -E 'test(properties)'

# Updates the transcripts in documents
transcripts:
    UPDATE_TRANSCRIPTS=1 cargo nextest run -E 'test(transcript_of_)'

# Tests the promise of exact mode at length, under load
exactness *options:
    ci/exactness {{options}}

# Measures numalab against what it is made of
bench *options:
    ci/bench {{options}}

# Makes a repository with a known culprit, and bisects it
bisect:
    NUMALAB_BISECT=long cargo nextest run --run-ignored only -E 'test(bisect::long)'

# Shows the guide in a browser
guide:
    mdbook serve docs --open
