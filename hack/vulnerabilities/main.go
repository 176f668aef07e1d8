// Command vulnerabilities runs govulncheck in modules. It fails if govulncheck fails, or reports a vulnerability in a function
// that the code calls. If the database of vulnerabilities is unreachable, it checks nothing: it then reports that it has skipped the check, and
// succeeds, because many machines have no access to the database. With REQUIRE_VULNERABILITIES=1, it fails instead.
//
//	go run ./hack/vulnerabilities bin/govulncheck . examples/15-timers
//
// GOVULNDB can set another database. The command adds a line for each skipped check to the file SKIPPED_CHECKS, if it is set.
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
	database        = "https://vuln.go.dev"
	databaseTimeout = 10 * time.Second // limit for a response of the database
	scanTimeout     = 20 * time.Minute // limit for the scan of a module with an empty build cache
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: vulnerabilities <govulncheck> <directory>...")
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
		return skip(fmt.Sprintf("known vulnerabilities: the database is unreachable: %v", err))
	}
	tool, err := filepath.Abs(tool)
	if err != nil {
		return err
	}
	var problems []error
	for _, folder := range folders {
		switch err := scan(tool, url, folder); {
		case errors.Is(err, errUnreachable):
			problems = append(problems, skip(fmt.Sprintf("known vulnerabilities in %s: %v", folder, err)))
		case err != nil:
			problems = append(problems, fmt.Errorf("%s: %w", folder, err))
		default:
			fmt.Printf("vulnerabilities: none in functions that %s calls\n", folder)
		}
	}
	return errors.Join(problems...)
}

// skip reports that a check was not made. It returns an error if the check is required.
func skip(check string) error {
	if os.Getenv("REQUIRE_VULNERABILITIES") != "" {
		return errors.New("cannot check " + check)
	}
	fmt.Fprintln(os.Stderr, "SKIPPED, NOT CHECKED: "+check)
	name := os.Getenv("SKIPPED_CHECKS")
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(file, check)
	return errors.Join(err, file.Close())
}

// reachable sends the first request that govulncheck would send to the database, and returns an error if it fails.
func reachable(url string) error {
	if !strings.HasPrefix(url, "http") {
		return nil // the URL names a local directory
	}
	client := http.Client{Timeout: databaseTimeout}
	response, err := client.Get(url + "/index/db.json")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s responded with %s", url, response.Status)
	}
	return nil
}

// errUnreachable is returned when the database becomes unreachable during the scan.
var errUnreachable = errors.New("the database became unreachable")

// scan runs govulncheck in a module. It returns an error if the code calls a vulnerable function, or if govulncheck fails.
func scan(tool, url, folder string) error {
	ctx, cancel := context.WithTimeout(context.Background(), scanTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "-db", url, "-C", folder, "./...")
	out, err := cmd.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == 3:
		return fmt.Errorf("the code calls vulnerable functions: upgrade these modules\n%s", out)
	}
	if strings.Contains(string(out), "fetching vulnerabilities") {
		return fmt.Errorf("%w: %s", errUnreachable, strings.Join(strings.Fields(string(out)), " "))
	}
	return fmt.Errorf("govulncheck failed: %w\n%s", err, out)
}
