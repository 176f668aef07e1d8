// Package rights has the options for the permissions of an operator: see kopf.WriteRights and kopf.WithRightsCheck.
package rights
