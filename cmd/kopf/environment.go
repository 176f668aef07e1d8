package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// parameters maps flags to their names in kopf's environment variables.
var parameters = map[string]string{
	"peering": "PEERING", "namespace": "NAMESPACES", "all-namespaces": "CLUSTERWIDE", "id": "ID",
	"priority": "PRIORITY", "dev": "DEV", "lifetime": "LIFETIME", "message": "MESSAGE",
}

// fromEnvironment sets missing flags from environment variables, such as KOPF_FREEZE_PRIORITY. It ignores empty variables, and returns an error
// for each invalid value.
func fromEnvironment(cmd *cobra.Command, _ []string) error {
	var problems []error
	priority := cmd.Flags().Changed("priority")
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		parameter, known := parameters[flag.Name]
		if !known || flag.Changed || flag.Name == "dev" && priority { // KOPF_FREEZE_DEV would override the flag --priority
			return
		}
		variable := "KOPF_" + strings.ToUpper(cmd.Name()) + "_" + parameter
		value := os.Getenv(variable)
		if value == "" {
			return
		}
		if flag.Name == "namespace" {
			value = strings.Join(strings.Fields(value), ",") // kopf separates names by spaces
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			problems = append(problems, fmt.Errorf("environment variable %s: %w", variable, err))
		}
	})
	return errors.Join(problems...)
}
