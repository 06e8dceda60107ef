"""The command line: Hydra applications, help texts, output streams and checks of the machine."""
