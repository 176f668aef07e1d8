package main

import (
	"net"
	"strings"
)

// secondInstance returns the command for a second instance of the operator, with other ports.
func (g *stage) secondInstance() (string, error) {
	ports, err := otherPorts(g.name)
	if err != nil {
		return "", err
	}
	command := "make example NAME=" + g.name + " CLUSTER=kubeconfig KUBECONFIG=" + g.access
	if args := append(append([]string(nil), g.args...), ports...); len(args) > 0 { // the last value of a repeated flag takes effect
		command += " ARGS=" + quoted(args)
	}
	return command, nil
}

// otherPorts returns flags for the ports of an example. The second instance serves neither metrics nor health checks.
func otherPorts(name string) ([]string, error) {
	nowhere := []string{"-metrics-bind-address=0", "-health-probe-bind-address=0"}
	address, err := freeAddress()
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

// freeAddress returns an address without a listener.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// quoted quotes arguments for the shell, for make, and for the shell that make calls.
func quoted(args []string) string {
	var words []string
	for _, arg := range args {
		if arg == "" || strings.Trim(arg, safe) != "" {
			arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'" // quoting for the shell that make calls
		}
		words = append(words, arg)
	}
	text := strings.ReplaceAll(strings.Join(words, " "), "$", "$$") // quoting for make
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(text) + `"`
}

// safe lists the characters that have no special meaning in a shell.
const safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=:,./@%+"
