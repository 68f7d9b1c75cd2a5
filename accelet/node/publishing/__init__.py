"""Which cards are published, and where: on the Node, in a feature file.

cardpublisher  Keeps the node's Node saying which cards there are and how much of them pods may ask for.
cards          Publishes the cards of all resources that follow assignments: on the Node, and in a feature
               file.
featurefile    Keeps one file for Node Feature Discovery as it is to be, and removes it at the end.
nodepatches =  What has to be changed of a Node so that it says a node's cards: values in, patches out.
"""
