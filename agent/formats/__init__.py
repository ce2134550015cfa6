"""Problems and answers in the formats of KernelBench, FlashInfer Trace, SOL-ExecBench and GPU MODE."""
