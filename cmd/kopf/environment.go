package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// parameters are kopf's names of flags, as they are in variables. [wire]
var parameters = map[string]string{
	"peering": "PEERING", "namespace": "NAMESPACES", "all-namespaces": "CLUSTERWIDE", "id": "ID",
	"priority": "PRIORITY", "dev": "DEV", "lifetime": "LIFETIME", "message": "MESSAGE",
}

// fromEnvironment has flags that were not given set by variables, such as KOPF_FREEZE_PRIORITY; empty ones do not count.
func fromEnvironment(cmd *cobra.Command, _ []string) error {
	var problems []error
	priority := cmd.Flags().Changed("priority")
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		parameter, known := parameters[flag.Name]
		if !known || flag.Changed || flag.Name == "dev" && priority { // which would count more
			return
		}
		variable := "KOPF_" + strings.ToUpper(cmd.Name()) + "_" + parameter
		value := os.Getenv(variable)
		if value == "" {
			return
		}
		if flag.Name == "namespace" {
			value = strings.Join(strings.Fields(value), ",") // there, they are separated by spaces
		}
		if err := cmd.Flags().Set(flag.Name, value); err != nil {
			problems = append(problems, fmt.Errorf("the variable %s: %w", variable, err))
		}
	})
	return errors.Join(problems...)
}
