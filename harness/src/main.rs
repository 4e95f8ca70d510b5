//! The command `numalab`; see [`numalab::cli`].

fn main() -> std::process::ExitCode {
    numalab::cli::main()
}
