package peering

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ReadEnvironment sets the options from the variables that an operator in Python takes: for one in Go that takes its place, in the
// same deployment. Variables that are empty do not count.
//
//	KOPF_RUN_PEERING      the peering object; it has to be there (Mandatory)
//	KOPF_RUN_PRIORITY     the priority among the peers
//	KOPF_RUN_DEV          if true, the priority is [DevPriority]
//	KOPF_RUN_STANDALONE   if true, there are no peers
//	KOPF_RUN_NAMESPACES   the namespaces to be served, separated by spaces; KOPF_RUN_NAMESPACE is one more
//	KOPF_RUN_CLUSTERWIDE  if true, the cluster is served
//
// Call it before [Options.BindFlags], and flags count more. The error tells all values that are not understood; whether the
// namespaces can be some is for [Options.Validate] to tell: patterns cannot.
//
// kopf: the environment of "kopf run".
func (o *Options) ReadEnvironment() error {
	var problems []error
	value := func(name string) (variable, text string) {
		variable = "KOPF_RUN_" + name
		return variable, strings.TrimSpace(os.Getenv(variable))
	}
	isTrue := func(name string) bool {
		variable, text := value(name)
		if text == "" {
			return false
		}
		is, known := truths[strings.ToLower(text)]
		if !known {
			problems = append(problems, fmt.Errorf("peering: %s is %q: use true or false", variable, text))
		}
		return is
	}
	if _, name := value("PEERING"); name != "" {
		o.Name, o.Mandatory = name, true
	}
	if variable, text := value("PRIORITY"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("peering: %s is %q: use an integer", variable, text))
		} else {
			o.Priority = n
		}
	}
	if isTrue("DEV") {
		o.Priority = DevPriority
	}
	o.Standalone = isTrue("STANDALONE") || o.Standalone
	_, several := value("NAMESPACES")
	_, one := value("NAMESPACE")
	namespaces, cluster := strings.Fields(several+" "+one), isTrue("CLUSTERWIDE")
	switch {
	case cluster && len(namespaces) > 0:
		problems = append(problems, errors.New("peering: KOPF_RUN_CLUSTERWIDE and KOPF_RUN_NAMESPACES exclude each other: leave one out"))
	case cluster:
		o.Namespaces = nil
	case len(namespaces) > 0:
		o.Namespaces = namespaces
	}
	return errors.Join(problems...)
}

// truths are the words that kopf's command line takes.
var truths = map[string]bool{
	"1": true, "true": true, "t": true, "yes": true, "y": true, "on": true,
	"0": false, "false": false, "f": false, "no": false, "n": false, "off": false,
}
