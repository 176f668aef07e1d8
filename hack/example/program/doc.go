// Package program builds the operators of the demo and the examples, and runs them as separate processes. It also provides the context for
// interruptible commands.
//
//	file := filepath.Join(dir, "operator")
//	if err := program.Build(ctx, "examples/01-minimal", file); err != nil {
//		return err
//	}
//	p, err := program.Start(file, nil, "KUBECONFIG="+kubeconfig)
//	if err != nil {
//		return err
//	}
//	defer p.Stop(10 * time.Second)
//	fmt.Println(p.Lines()) // its output so far
//
// On Unix, the program does not outlive this process. A shell process reads from a pipe of this process, and kills the program when the pipe is
// closed. The program does not receive Ctrl-C, so that this process can stop it gracefully.
package program
