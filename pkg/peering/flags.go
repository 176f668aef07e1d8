package peering

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
)

// BindFlags adds the flags by which people choose peers, with the options as they are for defaults:
//
//	--peering NAME    the peering object; from now on it has to be there (Mandatory)
//	--priority N      the priority among the peers
//	--dev             the same as --priority=666
//	--standalone      no peers, whatever else is set
//	--namespace NAME  a namespace to be served; several: repeat it, or use commas
//
// Of --priority and --dev, the last one counts. The first --namespace replaces the Namespaces that were set before.
//
// kopf: the options of "kopf run".
func (o *Options) BindFlags(fs *flag.FlagSet) {
	fs.Func("peering", "name of the peering object, which then has to be there", func(name string) error {
		if name == "" {
			return fmt.Errorf("give a name, such as %s", DefaultName)
		}
		o.Name, o.Mandatory = name, true
		return nil
	})
	fs.IntVar(&o.Priority, "priority", o.Priority, "priority among the operators of the peering object: the highest works, the others pause")
	fs.BoolFunc("dev", fmt.Sprintf("the priority of a developer, the same as --priority=%d", DevPriority), func(text string) error {
		dev, err := strconv.ParseBool(text)
		if dev {
			o.Priority = DevPriority
		}
		return err
	})
	fs.BoolVar(&o.Standalone, "standalone", o.Standalone, "ignore other operators, and be unknown to them")
	given := false
	fs.Func("namespace", "namespace to serve; several: repeat the flag, or use commas (default: the cluster)", func(names string) error {
		if !given {
			o.Namespaces, given = nil, true
		}
		o.Namespaces = append(o.Namespaces, strings.Split(names, ",")...)
		return nil
	})
}
