package peering

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ReadEnvironment sets the options from the environment variables of "kopf run", so that an operator in Go can replace one in Python
// without changing its Deployment. It ignores empty variables.
//
//	KOPF_RUN_PEERING      the peering object, which must exist (Mandatory)
//	KOPF_RUN_PRIORITY     the priority among the peers
//	KOPF_RUN_DEV          if true, the priority is [DevPriority]
//	KOPF_RUN_STANDALONE   if true, peering is disabled
//	KOPF_RUN_NAMESPACES   the served namespaces, separated by spaces; KOPF_RUN_NAMESPACE adds one
//	KOPF_RUN_CLUSTERWIDE  if true, the cluster is served
//
// Call it before [Options.BindFlags], so that flags override variables. It returns the joined errors of all invalid values, except for
// namespaces, which [Options.Check] validates. Namespace patterns aren't supported.
//
// Equivalent in kopf: the environment of "kopf run".
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
		is, known := boolWords[strings.ToLower(text)]
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
		problems = append(problems, errors.New("peering: KOPF_RUN_CLUSTERWIDE and KOPF_RUN_NAMESPACES are mutually exclusive: remove one of them"))
	case cluster:
		o.Namespaces = nil
	case len(namespaces) > 0:
		o.Namespaces = namespaces
	}
	return errors.Join(problems...)
}

// boolWords are the boolean values that kopf's command line accepts.
var boolWords = map[string]bool{
	"1": true, "true": true, "t": true, "yes": true, "y": true, "on": true,
	"0": false, "false": false, "f": false, "no": false, "n": false, "off": false,
}
