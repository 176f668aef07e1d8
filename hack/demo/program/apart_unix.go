//go:build unix

package program

import "syscall"

// apart keeps a process out of the reach of Ctrl-C.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
