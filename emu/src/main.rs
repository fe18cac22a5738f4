//! The command `mmuscope`; see `mmuscope --help`.

mod cli;

fn main() -> cli::Exit {
    cli::main()
}
