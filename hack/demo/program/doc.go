// Package program builds a command of ours and runs it as a process of its own: the operators
// of the demo and of the examples. And it tells a command when it is to end itself.
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
// # Guarantees
//
// On Unix, the program does not outlive this process, whatever ends that: a guard
// reads from a pipe of this process, and kills the program when the pipe breaks. The program is not
// hit by Ctrl-C, so that this process can end it in good order.
package program
