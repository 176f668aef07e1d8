// Command vulnerabilities runs govulncheck in some modules, if the database of vulnerabilities can be reached: without it, it
// says so, and that is no failure. What is found fails only if it can be called.
//
//	go run ./hack/vulnerabilities bin/govulncheck . examples/15-timers
//
// GOVULNDB may name another database.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	database = "https://vuln.go.dev"
	patience = 10 * time.Second // for its answer
	limit    = 20 * time.Minute // for one module, when nothing is cached
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: vulnerabilities <govulncheck> <folder>...")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "vulnerabilities:", err)
		os.Exit(1)
	}
}

func run(tool string, folders []string) error {
	url := database
	if other := os.Getenv("GOVULNDB"); other != "" {
		url = other
	}
	if err := reachable(url); err != nil {
		fmt.Printf("vulnerabilities: NOT LOOKED FOR: the database cannot be reached (%v)\n", err)
		return nil
	}
	tool, err := filepath.Abs(tool)
	if err != nil {
		return err
	}
	var problems []error
	for _, folder := range folders {
		switch err := scan(tool, url, folder); {
		case errors.Is(err, errUnreachable):
			fmt.Printf("vulnerabilities: NOT LOOKED FOR in %s: %v\n", folder, err)
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %w", folder, err))
		default:
			fmt.Printf("vulnerabilities: none that %s calls\n", folder)
		}
	}
	return errors.Join(problems...)
}

// reachable asks for what govulncheck asks for first.
func reachable(url string) error {
	if !strings.HasPrefix(url, "http") {
		return nil // a folder
	}
	client := http.Client{Timeout: patience}
	response, err := client.Get(url + "/index/db.json")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// errUnreachable is for a database that was there a moment ago.
var errUnreachable = errors.New("the database cannot be reached any more")

// scan fails if something can be called, and says by what: go by the output of the tool.
func scan(tool, url, folder string) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "-db", url, "-C", folder, "./...")
	out, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == 3:
		return fmt.Errorf("there are vulnerabilities that can be reached: upgrade what is named here\n%s", out)
	}
	if strings.Contains(string(out), "fetching vulnerabilities") {
		return fmt.Errorf("%w: %s", errUnreachable, strings.TrimSpace(string(out)))
	}
	return fmt.Errorf("govulncheck has failed: %w\n%s", err, out)
}
