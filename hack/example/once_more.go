package main

import (
	"net"
	"strings"
)

// onceMore is the command for a second operator of the kind, beside the first: at other ports.
func (g *stage) onceMore() (string, error) {
	ports, err := otherPorts(g.name)
	if err != nil {
		return "", err
	}
	command := "make example NAME=" + g.name + " CLUSTER=kubeconfig KUBECONFIG=" + g.access
	if args := append(append([]string(nil), g.args...), ports...); len(args) > 0 { // of a flag that is there twice, the latter counts
		command += " ARGS=" + quoted(args)
	}
	return command, nil
}

// otherPorts are flags for the examples that serve something. Metrics and checks of the second one are not needed.
func otherPorts(name string) ([]string, error) {
	nowhere := []string{"-metrics-bind-address=0", "-health-probe-bind-address=0"}
	address, err := free()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	switch name {
	case "12-embedded":
		return []string{"-listen=" + address}, err
	case "13-hooks", "kubebuilder":
		return nowhere, err
	case "17-admission":
		return []string{"-port=" + port}, err
	case "99-all-at-once":
		return append(nowhere, "-port="+port), err
	}
	return nil, err
}

// free is an address at which nobody listens.
func free() (string, error) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// quoted is for the shell, for make, and for the shell that make calls: each of them takes something away.
func quoted(args []string) string {
	var words []string
	for _, arg := range args {
		if arg == "" || strings.Trim(arg, safe) != "" {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'" // for the latter
		}
		words = append(words, arg)
	}
	text := strings.ReplaceAll(strings.Join(words, " "), "$", "$$") // for make
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(text) + `"`
}

// safe are characters that mean nothing to a shell.
const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=:,./@%+"
