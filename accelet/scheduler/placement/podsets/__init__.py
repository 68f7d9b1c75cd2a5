"""Places for gangs whose pod sets are each to be in one domain of a level of their own.

Pure: values in, values out.

choice   Which domain each group of pods gets, so that all of them have room: by sums, and a search.
filling  A leaf for each pod, once each group of pods has a domain.
groups   The groups of a gang's pods that must each share a domain: pod sets, their slices, and slices of
         these.
owndomains  Places for a gang some of whose Jobs, or groups, are each to have a domain to themselves.
placing  Places for a gang of which pod sets are each to be in one domain, or a sentence why there are none.
reasons  Why there is no place for a gang whose pod sets are each to be in one domain.
"""
