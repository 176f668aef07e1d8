//go:build !unix

package program

import "syscall"

func guard(int) (release func(), err error) { return func() {}, nil }

func ownProcessGroup() *syscall.SysProcAttr { return nil }
